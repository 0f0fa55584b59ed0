// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

TEST(WithOptions, LetsLaterOnesWinFieldByField) {
  const Dataset dataset =
      Dataset::range(3).with_options({.seed = 1}).with_options({.num_threads = 2}).with_options({.seed = 2});
  const Options all = dataset.options();
  EXPECT_EQ(all.seed, 2);
  EXPECT_EQ(all.num_threads, 2);
}

TEST(WithOptions, SetsOptionsOfThePipelineFromAnyPlaceInIt) {
  EXPECT_EQ(Dataset::range(3).with_options({.seed = 1}).batch(2).options().seed, 1);
}

TEST(WithOptions, PassesEverythingOn) {
  const Dataset batches = Dataset::range(7).batch(3);
  const Dataset same = batches.with_options({.seed = 1});
  EXPECT_EQ(elements(same), elements(batches));
  EXPECT_EQ(same.cardinality(), batches.cardinality());
  EXPECT_EQ(same.element_spec(), batches.element_spec());
  EXPECT_EQ(same.node()->batch_size(), batches.node()->batch_size());
  EXPECT_EQ(same.node()->identity(), "");
  EXPECT_EQ(same.node()->describe(), "with_options(Options(seed=1))");
}

TEST(WithOptions, DoesNotChangeTheKeysOfUnseededOps) {
  const IterateOptions base_seed = {.epoch = 0, .seed = 5};
  const Dataset plain = Dataset::range(30).shuffle().take(20);
  EXPECT_EQ(values(Dataset::range(30).shuffle().with_options({.num_threads = 1}).take(20), base_seed),
            values(plain, base_seed));
}

TEST(WithOptions, RefusesValuesOutOfRange) {
  EXPECT_TRUE(has(message_of<c10::ValueError>([] { Dataset::range(3).with_options({.num_threads = -1}); }),
                  "`num_threads`"));
}

TEST(WithOptions, ObeysTheLaws) {
  expect_laws(Dataset::range(7).shuffle().with_options({.seed = 1}).batch(2));
  expect_laws(generated(7).with_options({.seed = 1}));
}

}  // namespace
}  // namespace torch_distinput
