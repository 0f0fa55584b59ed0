// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/boxes.h"

#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

constexpr Extent kCanvas{10, 8};

std::vector<double> after(std::vector<double> box, const std::vector<Edit>& edits,
                          BoxFormat format = BoxFormat::kXyxy, c10::ScalarType dtype = at::kFloat) {
  const at::Tensor boxes = at::tensor(box, at::kDouble).to(dtype).view({-1, 4});
  edit_boxes(boxes, format, kCanvas, edits);
  const at::Tensor numbers = boxes.to(at::kDouble);
  return {numbers.const_data_ptr<double>(), numbers.const_data_ptr<double>() + numbers.numel()};
}

using Numbers = std::vector<double>;

TEST(Boxes, CropsShiftAndClamp) {
  const CropEdit crop{{2, 1, 5, 4}};
  EXPECT_EQ(after({3, 2, 4, 3}, {crop}), (Numbers{1, 1, 2, 2}));
  EXPECT_EQ(after({0, 0, 10, 8}, {crop}), (Numbers{0, 0, 5, 4}));
  EXPECT_EQ(after({0, 0, 1, 1}, {crop}), (Numbers{0, 0, 0, 0})) << "outside: no area";
  EXPECT_EQ(after({8, 2, 9, 9}, {crop}), (Numbers{5, 1, 5, 4}));
  EXPECT_EQ(after({0, 0, 10, 8}, {crop}, BoxFormat::kXywh), (Numbers{0, 0, 5, 4}));
  EXPECT_EQ(after({5, 4, 10, 8}, {crop}, BoxFormat::kCxcywh), (Numbers{2.5, 2, 5, 4}));
}

TEST(Boxes, PaddingClampsToo) {
  const PadEdit pad{1, 2, 3, 4, 0, PaddingMode::kConstant};
  EXPECT_EQ(after({-3, 0, 13, 8}, {pad}), (Numbers{0, 2, 14, 10}));
}

TEST(Boxes, ResizesMultiply) {
  const ResizeEdit resize{{5, 24}, Interpolation::kBilinear, true};
  for (const BoxFormat format : {BoxFormat::kXyxy, BoxFormat::kXywh, BoxFormat::kCxcywh})
    EXPECT_EQ(after({1, 2, 3, 4}, {resize}, format), (Numbers{0.5, 6, 1.5, 12}));
  EXPECT_EQ(after({1, 2, 3, -5}, {resize}, BoxFormat::kXyxy, at::kInt), (Numbers{0, 6, 1, -15}))
      << "integers lose their fractions";
}

TEST(Boxes, FlipsAndTurnsMoveCorners) {
  const Numbers box{1, 2, 4, 3};
  EXPECT_EQ(after(box, {FlipEdit{true}}), (Numbers{6, 2, 9, 3}));
  EXPECT_EQ(after(box, {FlipEdit{false}}), (Numbers{1, 5, 4, 6}));
  EXPECT_EQ(after(box, {FlipEdit{true}}, BoxFormat::kXywh), (Numbers{5, 2, 4, 3}));
  EXPECT_EQ(after(box, {FlipEdit{true}}, BoxFormat::kCxcywh), (Numbers{9, 2, 4, 3}));
  EXPECT_EQ(after(box, {TurnEdit{1}}), (Numbers{2, 6, 3, 9}));
  EXPECT_EQ(after(box, {TurnEdit{1}}, BoxFormat::kXywh), (Numbers{2, 5, 3, 4}));
  EXPECT_EQ(after(box, {TurnEdit{2}}), (Numbers{6, 5, 9, 6}));
  for (const BoxFormat format : {BoxFormat::kXyxy, BoxFormat::kXywh, BoxFormat::kCxcywh})
    EXPECT_EQ(after(box, {TurnEdit{1}, TurnEdit{3}}, format), box);
}

TEST(Boxes, ColoursDoNotMatter) {
  EXPECT_EQ(after({1, 2, 4, 3}, {ColourEdit{ColourChange::kContrast, 0.3}}), (Numbers{1, 2, 4, 3}));
}

TEST(Boxes, ExtremeNumbersAreClamped) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const CropEdit crop{{2, 1, 5, 4}};
  EXPECT_EQ(after({-kInfinity, -kInfinity, kInfinity, kInfinity}, {crop}), (Numbers{0, 0, 5, 4}));
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  const at::Tensor boxes = at::tensor({kMin, kMin, kMax, kMax}, at::kLong).view({1, 4});
  edit_boxes(boxes, BoxFormat::kXyxy, kCanvas, std::vector<Edit>{FlipEdit{true}, crop});
  EXPECT_TRUE(at::equal(boxes, at::tensor({0, 0, 5, 4}, at::kLong).view({1, 4})));
}

}  // namespace
}  // namespace torch_distinput
