// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/step_info.h"

#include <limits>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

using distribute_testing::replicas;

TEST(StepInfo, BothLossHelpersGiveTheGlobalMean) {
  const StepInfo info{
      .valid = {2, 1}, .global_valid = 3, .num_replicas = 2, .loss_scale = {4.0 / 3, 2.0 / 3}};
  const at::Tensor anchor = at::ones({1});
  const double first = scaled_mean(at::ones({}).mul(5), info, anchor, 0).item<double>();
  const double second = scaled_mean(at::ones({}).mul(8), info, anchor, 1).item<double>();
  EXPECT_NEAR((first + second) / 2, (2 * 5 + 8) / 3.0, 1e-5);
  EXPECT_NEAR((distributed_mean(at::ones({}).mul(10), info) + distributed_mean(at::ones({}).mul(8), info))
                      .item<double>() /
                  2,
              6, 1e-5);
  EXPECT_THROW(scaled_mean(at::ones({}), info, anchor, 2), c10::ValueError);
}

TEST(StepInfo, AReplicaWithoutRowsGetsAZeroThatHasAGraph) {
  const StepInfo info{.valid = {0}, .global_valid = 3, .num_replicas = 2, .loss_scale = {0.0}};
  const at::Tensor weight = at::ones({4}).requires_grad_();
  const at::Tensor nan = at::ones({}).mul(std::numeric_limits<double>::quiet_NaN());
  const at::Tensor loss = scaled_mean(nan, info, weight.mul(2));
  EXPECT_EQ(loss.item<double>(), 0);
  loss.backward();
  EXPECT_TRUE(weight.grad().eq(0).all().item<bool>());
}

TEST(StepInfo, RestoreOrderRemovesPadding) {
  const auto dataset = replicas(3).distribute_dataset(Dataset::range(8).batch(6), {.tail = Tail::kPadded});
  DistributedIterator iterator = dataset.iterate({.epoch = 0});
  std::int64_t row = 0;
  while (const auto step = iterator.next()) {
    std::vector<at::Tensor> parts;
    for (const Element& part : *step) parts.push_back(part.tensor());
    const at::Tensor rows = restore_order(at::cat(parts), step->info());
    ASSERT_EQ(rows.size(0), step->info().global_valid);
    for (std::int64_t i = 0; i < rows.size(0); ++i) EXPECT_EQ(rows[i].item<std::int64_t>(), row++);
  }
  EXPECT_EQ(row, 8);
}

TEST(StepInfo, RestoreOrderRequiresAllRowsOfTheStep) {
  const StepInfo info{.valid = {1, 1}, .global_valid = 2, .num_replicas = 2};
  const std::string message = message_of<c10::ValueError>([&] { restore_order(at::empty({3, 1}), info); });
  EXPECT_TRUE(has(message, "the 2 rows of the step along dim 0, but has shape [3, 1]"));
}

}  // namespace
}  // namespace torch_distinput
