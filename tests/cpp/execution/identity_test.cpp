// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/identity.h"

#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

std::string identity(const Dataset& dataset) { return pipeline_identity(dataset.node()).str(); }

TEST(PipelineIdentity, ListsTheOpsFromTheSourceOn) {
  EXPECT_EQ(identity(Dataset::range(10).take(5).batch(2)),
            R"~(["range(start=0, stop=10, step=1)", "take(count=5)", "batch(drop_remainder=False)"])~");
}

TEST(PipelineIdentity, LeavesOutWhatOnlyChangesSpeed) {
  const Dataset dataset = Dataset::range(10).batch(2);
  EXPECT_EQ(identity(dataset.prefetch(3)), identity(dataset));
  EXPECT_EQ(identity(dataset.with_options({.num_threads = 1})), identity(dataset));
}

TEST(PipelineIdentity, LeavesOutTheSizeOfTheLastBatch) {
  EXPECT_EQ(identity(Dataset::range(10).batch(2).prefetch(1)), identity(Dataset::range(10).batch(5)));
  EXPECT_NE(identity(Dataset::range(10).batch(2)),
            identity(Dataset::range(10).batch(2, {.drop_remainder = true})));
}

TEST(PipelineIdentity, HoldsABatchSizeThatALaterOpDependsOn) {
  EXPECT_NE(identity(Dataset::range(10).batch(2).take(1)), identity(Dataset::range(10).batch(5).take(1)));
  EXPECT_NE(identity(Dataset::range(12).batch(2, {.drop_remainder = true}).batch(3)),
            identity(Dataset::range(12).batch(4, {.drop_remainder = true}).batch(3)));
  EXPECT_NE(identity(Dataset::range(10).batch(2).prefetch(1).repeat(2)),
            identity(Dataset::range(10).batch(5).prefetch(1).repeat(2)));
}

TEST(PipelineIdentity, TellsInputsApart) {
  const Dataset a = Dataset::range(3);
  const Dataset b = Dataset::range(4);
  EXPECT_NE(identity(Dataset::zip({a, b})), identity(Dataset::zip({b, a})));
  EXPECT_NE(identity(a.concatenate(b)), identity(Dataset::zip({a, b})));
}

TEST(CheckIdentity, NamesTheOpsThatDiffer) {
  const State saved = pipeline_identity(Dataset::range(10).take(5).batch(2).node());
  EXPECT_NO_THROW(check_identity(saved, pipeline_identity(Dataset::range(10).take(5).batch(3).node())));
  EXPECT_EQ(
      message_of<c10::ValueError>(
          [&] { check_identity(saved, pipeline_identity(Dataset::range(10).skip(5).batch(2).node())); }),
      "state: saved from another pipeline; its op 1 was `take(count=5)`, but here it is `skip(count=5)`.");
  EXPECT_EQ(message_of<c10::ValueError>(
                [&] { check_identity(saved, pipeline_identity(Dataset::range(10).node())); }),
            "state: saved from another pipeline; its op 1 was `take(count=5)`, but here it is nothing.");
  EXPECT_EQ(message_of<c10::ValueError>([&] {
              check_identity(saved, pipeline_identity(Dataset::range(11).take(6).batch(2).node()));
            }),
            "state: saved from another pipeline; its op 0 was `range(start=0, stop=10, step=1)`, but here it "
            "is `range(start=0, stop=11, step=1)`; its op 1 was `take(count=5)`, but here it is "
            "`take(count=6)`.");
}

}  // namespace
}  // namespace torch_distinput
