// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/random.h"

#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

Element draw(Element) { return at::randint(std::int64_t{1} << 62, {}, random(), at::kLong); }

TEST(Random, DrawsTheSameForARowOnAnyNumberOfThreads) {
  const IterateOptions plan{.epoch = 0, .seed = 1};
  const IterateOptions stream{.epoch = 0, .seed = 1, .stream_only = true};
  const Values expected = values(Dataset::range(20).map(draw), plan);
  for (const std::int64_t calls : {1, 4}) {
    const Dataset dataset = Dataset::range(20).map(draw, {.num_parallel_calls = calls});
    EXPECT_EQ(values(dataset, plan), expected);
    EXPECT_EQ(values(dataset, stream), expected);
  }
}

TEST(Random, FollowsSeedAndEpoch) {
  const Dataset dataset = Dataset::range(5).map(draw);
  const Values first = values(dataset, {.epoch = 0, .seed = 1});
  EXPECT_EQ(values(dataset, {.epoch = 0, .seed = 1}), first);
  EXPECT_NE(values(dataset, {.epoch = 1, .seed = 1}), first);
  EXPECT_NE(values(dataset, {.epoch = 0, .seed = 2}), first);
}

TEST(Random, ObeysTheLawsOfItsOp) {
  expect_laws(Dataset::range(9).shuffle().map(draw).batch(2));
  expect_laws(generated(9).map(draw, {.num_parallel_calls = 2}));
  expect_laws(Dataset::range(9).filter([](const Element& x) { return scalar(draw(x)) % 2 == 0; }));
}

TEST(Random, IsOneGeneratorForOneRow) {
  const std::int64_t numbers[] = {4, 4, 5};
  const RowScope scope(1, numbers);
  const at::Generator first = random();
  EXPECT_TRUE(first == random());
  RowScope::enter(1);
  EXPECT_FALSE(first == random());
  EXPECT_EQ(random().current_seed(), first.current_seed());
  RowScope::enter(2);
  EXPECT_NE(random().current_seed(), first.current_seed());
}

TEST(Random, GoesBackToTheOuterRowAfterAnInnerOne) {
  const std::int64_t number = 3;
  const RowScope outer(1, {&number, 1});
  const at::Generator before = random();
  {
    const RowScope inner(2, {&number, 1});
    EXPECT_NE(random().current_seed(), before.current_seed());
  }
  EXPECT_TRUE(before == random());
}

TEST(Random, NeedsARow) { EXPECT_THROW(random(), FailedPreconditionError); }

}  // namespace
}  // namespace torch_distinput
