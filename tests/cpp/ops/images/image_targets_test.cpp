// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "torch_distinput/images.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kRows = 5;

at::Tensor masks() { return at::arange(kRows * 6 * 8, at::kByte).view({kRows, 6, 8}); }

Dataset rows() {
  return Dataset::from_tensor_slices(
      Element::dict({{"image", at::zeros({kRows, 3, 6, 8}, at::kByte)},
                     {"mask", masks()},
                     {"boxes", at::tensor({0, 1, 2, 3}, at::kFloat).expand({kRows, 2, 4})}}));
}

Dataset declared() { return rows().with_image_targets({.masks = {"mask"}, .boxes = {"boxes"}}, "image"); }

TEST(ImageTargets, FollowTheImage) {
  DatasetIterator iterator = declared().horizontal_flip({.p = 1}).batch(kRows).iterate();
  const std::optional<Element> batch = iterator.next();
  ASSERT_TRUE(batch);
  EXPECT_TRUE(at::equal((*batch)["mask"].tensor(), at::flip(masks(), {2})));
  EXPECT_TRUE(at::equal((*batch)["boxes"].tensor(),
                        at::tensor({6, 1, 8, 3}, at::kFloat).expand({kRows, 2, 4}).contiguous()));
}

TEST(ImageTargets, KeepTheLaws) {
  op_testing::expect_laws(
      declared().random_resized_crop({.size = {5}}).shuffle({.seed = 3}).vertical_flip().rotate90().batch(2));
}

TEST(ImageTargets, AreNotLostInSilence) {
  EXPECT_THROW(declared().enumerate().vertical_flip({}, 1), c10::ValueError);
  EXPECT_NO_THROW(rows().enumerate().vertical_flip({}, 1)) << "nothing was declared";
}

}  // namespace
}  // namespace torch_distinput
