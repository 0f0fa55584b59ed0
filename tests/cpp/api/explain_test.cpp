// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "support/fakes.h"

namespace torch_distinput {
namespace {

TEST(Explain, PrintsALineForEachOpInColumns) {
  EXPECT_EQ(Dataset::range(10).batch(4).with_options({.num_threads = 3}).unbatch().explain(),
            "op                                         elements  path                          threads    "
            "element_spec\n"
            "range(start=0, stop=10, step=1)            10        plan                          arena (3)  "
            "TensorSpec(shape=(), dtype=torch.int64)\n"
            "batch(batch_size=4, drop_remainder=False)  3         plan                          arena (3)  "
            "TensorSpec(shape=(None,), dtype=torch.int64)\n"
            "with_options(Options(num_threads=3))       3         plan                          arena (3)  "
            "TensorSpec(shape=(None,), dtype=torch.int64)\n"
            "unbatch()                                  unknown   stream: has no random access  caller     "
            "TensorSpec(shape=(), dtype=torch.int64)\n");
}

TEST(Explain, SaysWhyAnOpStreams) {
  const std::string text = Dataset::range(10).batch(4).unbatch().batch(2).explain();
  EXPECT_TRUE(has(text, "batch(batch_size=2, drop_remainder=False)  unknown   stream: its input streams"));
  const std::string skips =
      Dataset::from_rows(std::make_shared<fakes::Rows>(3)).with_options(op_testing::skipping()).explain();
  EXPECT_TRUE(has(skips, "stream: skips rows that fail"));
}

/// The threads of each op, from the source to the last op.
std::vector<std::string> threads_of(const Dataset& dataset) {
  std::vector<std::string> found;
  for (const OpInfo& op : dataset.ops()) found.push_back(op.threads);
  return found;
}

TEST(Explain, NamesTheThreadsOfEachOp) {
  using Threads = std::vector<std::string>;
  const FunctionPtr users = op_testing::runs_user_code([](Element element) { return element; });
  const Dataset rows = Dataset::range(10).with_options({.num_threads = 3});
  EXPECT_EQ(threads_of(rows.map(users)), Threads(3, "caller"));
  EXPECT_EQ(threads_of(rows.map(users, {.num_parallel_calls = 2})), Threads(3, "tdi-pool (2)"));
  EXPECT_EQ(threads_of(rows.map(users).prefetch(2)), Threads(4, "tdi-pool (1)"));
  EXPECT_EQ(threads_of(rows.batch(2).unbatch().prefetch(2)),
            (Threads{"arena (3)", "arena (3)", "arena (3)", "tdi-prefetch (1)", "tdi-prefetch (1)"}));
  EXPECT_EQ(threads_of(rows.batch(2).unbatch().map(users, {.num_parallel_calls = 4})),
            (Threads{"arena (3)", "arena (3)", "arena (3)", "caller", "tdi-map (4)"}));
  EXPECT_EQ(threads_of(Dataset::range(10).with_options({.num_threads = 0})), Threads(2, "caller"));
}

TEST(Explain, ReportsOpsAsRecords) {
  const FunctionPtr users = op_testing::runs_user_code([](Element element) { return element; });
  const auto ops = Dataset::zip({Dataset::range(3).map(users), Dataset::range(4).repeat()}).ops();
  ASSERT_EQ(ops.size(), 5u);
  EXPECT_EQ(ops[0].call, "range(start=0, stop=3, step=1)");
  EXPECT_EQ(ops[0].num_inputs, 0u);
  EXPECT_EQ(ops[0].path, "plan");
  EXPECT_EQ(to_string(*ops[0].spec), "TensorSpec(shape=(), dtype=torch.int64)");
  EXPECT_FALSE(ops[0].runs_user_code);
  EXPECT_TRUE(ops[1].runs_user_code);
  EXPECT_EQ(ops[1].num_inputs, 1u);
  EXPECT_EQ(ops[3].cardinality, kInfiniteCardinality);
  EXPECT_EQ(ops[4].num_inputs, 2u);
  EXPECT_EQ(ops[4].cardinality, 3);
}

TEST(Explain, IndentsEachInputOfSeveralOps) {
  const Dataset inner = Dataset::zip({Dataset::range(2).take(1), Dataset::range(3)});
  std::vector<std::size_t> indents;
  std::istringstream text(Dataset::zip({inner.skip(1), Dataset::range(4)}).explain());
  for (std::string line; std::getline(text, line);) indents.push_back(line.find_first_not_of(' '));
  EXPECT_EQ(indents, (std::vector<std::size_t>{0, 4, 4, 4, 2, 2, 2, 0}));
}

TEST(Explain, IndentsSeveralInputs) {
  const std::string text = Dataset::zip({Dataset::range(3), Dataset::range(4).repeat()}).explain();
  EXPECT_TRUE(has(text, "\n  range(start=0, stop=3, step=1)"));
  EXPECT_TRUE(has(text, "\n  repeat(count=None)              infinite"));
}

TEST(Explain, SaysWhenASpecCannotBeKnown) {
  const Dataset empty = Dataset::from_rows(std::make_shared<fakes::Rows>(0));
  EXPECT_TRUE(has(empty.explain(), "  unknown\n"));
}

TEST(Explain, SaysWhenIteratingWouldFail) {
  EXPECT_TRUE(has(Dataset::range(3).shard(kShardHint, 0).explain(), "fails: shard: "));
}

}  // namespace
}  // namespace torch_distinput
