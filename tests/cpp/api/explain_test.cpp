// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "support/fakes.h"

namespace torch_distinput {
namespace {

TEST(Explain, PrintsALineForEachOpInColumns) {
  EXPECT_EQ(
      Dataset::range(10).batch(4).unbatch().explain(),
      "op                                         elements  path                          element_spec\n"
      "range(start=0, stop=10, step=1)            10        plan                          "
      "TensorSpec(shape=(), dtype=torch.int64)\n"
      "batch(batch_size=4, drop_remainder=False)  3         plan                          "
      "TensorSpec(shape=(None,), dtype=torch.int64)\n"
      "unbatch()                                  unknown   stream: has no random access  "
      "TensorSpec(shape=(), dtype=torch.int64)\n");
}

TEST(Explain, SaysWhyAnOpStreams) {
  const std::string text = Dataset::range(10).batch(4).unbatch().batch(2).explain();
  EXPECT_NE(text.find("batch(batch_size=2, drop_remainder=False)  unknown   stream: its input streams"),
            std::string::npos)
      << text;
  const std::string skips =
      Dataset::from_rows(std::make_shared<fakes::Rows>(3)).with_options(op_testing::skipping()).explain();
  EXPECT_NE(skips.find("stream: skips rows that fail"), std::string::npos) << skips;
}

TEST(Explain, IndentsSeveralInputs) {
  const std::string text = Dataset::zip({Dataset::range(3), Dataset::range(4).repeat()}).explain();
  EXPECT_NE(text.find("\n  range(start=0, stop=3, step=1)"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  repeat(count=None)              infinite"), std::string::npos) << text;
}

TEST(Explain, SaysWhenASpecCannotBeKnown) {
  const Dataset empty = Dataset::from_rows(std::make_shared<fakes::Rows>(0));
  EXPECT_NE(empty.explain().find("plan  unknown\n"), std::string::npos) << empty.explain();
}

TEST(Explain, SaysWhenIteratingWouldFail) {
  const std::string text = Dataset::range(3).shard(kShardHint, 0).explain();
  EXPECT_NE(text.find("fails: shard: "), std::string::npos) << text;
}

}  // namespace
}  // namespace torch_distinput
