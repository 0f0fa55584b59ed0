// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "torch_distinput/images.h"

namespace torch_distinput {
namespace {

TEST(ImagePlan, KnowsTheBytesOfImagesAndOfWhatIsBesideThem) {
  const Element rows = Element::tuple({at::zeros({5, 3, 6, 8}, at::kByte), at::zeros({5}, at::kLong)});
  const Dataset cropped = Dataset::from_tensor_slices(rows).center_crop({.size = {4}}, 0);
  constexpr std::int64_t kBytes = 3 * 4 * 4 + 8;
  EXPECT_EQ(op_testing::plan_of(cropped)->least_bytes(), kBytes);
  EXPECT_EQ(op_testing::plan_of(cropped.batch(2))->least_bytes(), 2 * kBytes);
}

TEST(ImagePlan, ImagesOfAShuffleOfBlocksAreNotMadeTogether) {
  const Dataset images = Dataset::from_tensor_slices(Element(at::zeros({64, 3, 8, 8}, at::kByte)));
  const Dataset shuffled = images.shuffle({.seed = 1, .blocks = 2});
  EXPECT_EQ(op_testing::plan_of(shuffled.batch(4))->traits().together, 8);
  EXPECT_EQ(op_testing::plan_of(shuffled.center_crop({.size = {4}}).batch(4))->traits().together, 1);
}

TEST(ImagePlan, RandAugmentKeepsTheLaws) {
  const Dataset images = Dataset::from_tensor_slices(Element(at::full({5, 3, 9, 7}, 90, at::kByte)));
  op_testing::expect_laws(
      images.rand_augment().shuffle({.seed = 3}).rand_augment({.num_ops = 1, .magnitude = 20}).batch(2));
}

}  // namespace
}  // namespace torch_distinput
