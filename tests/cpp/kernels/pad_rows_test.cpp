// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/pad_rows.h"

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "runtime/buffer_pool.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

at::Tensor padded(const std::vector<Element>& rows, LeafPadding padding = {}) {
  return pad_rows(rows, {&padding, 1}, *host_pool(), "padded_batch").tensor();
}

std::string error_of(const std::vector<Element>& rows, LeafPadding padding = {}) {
  return message_of<c10::ValueError>([&] { padded(rows, padding); });
}

/// A row of one string.
Element string_row(std::string_view string, bool utf8) {
  return {Structure::leaf(), {Bytes::column({&string, 1}, utf8)}};
}

TEST(PadRows, PadsEachDimToTheLongestRow) {
  const at::Tensor batch = padded({at::ones({1, 3}), at::ones({2, 1})}, {.shape = {}, .value = -1});
  at::Tensor expected = at::full({2, 2, 3}, -1.0F);
  expected[0][0].fill_(1);
  expected.select(0, 1).select(1, 0).fill_(1);
  EXPECT_TRUE(batch.equal(expected));
}

TEST(PadRows, PadsToADeclaredShape) {
  const at::Tensor batch = padded({at::ones({2}), at::ones({0})}, {.shape = Dims{3}});
  EXPECT_TRUE(batch.equal(at::tensor({1.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F}).reshape({2, 3})));
  EXPECT_EQ(padded({at::ones({2, 1})}, {.shape = Dims{kUnknownDim, 4}}).sizes(), at::IntArrayRef({1, 2, 4}));
}

TEST(PadRows, ReadsRowsOfAnyStrides) {
  const at::Tensor row = at::arange(6, at::kLong).reshape({2, 3}).t();
  const at::Tensor batch = padded({row, at::zeros({4, 2}, at::kLong)});
  EXPECT_TRUE(batch[0].slice(0, 0, 3).equal(row));
  EXPECT_TRUE(batch[0][3].equal(at::zeros({2}, at::kLong)));
}

TEST(PadRows, StacksScalarsAndEmptyRows) {
  EXPECT_TRUE(padded({at::ones({}), at::zeros({})}).equal(at::tensor({1.0F, 0.0F})));
  EXPECT_EQ(padded({at::zeros({0, 3})}).sizes(), at::IntArrayRef({1, 0, 3}));
}

TEST(PadRows, ChecksThatTheDtypeHoldsTheValue) {
  const std::vector<Element> bytes{at::ones({1}, at::kByte), at::ones({2}, at::kByte)};
  EXPECT_EQ(padded(bytes, {.shape = {}, .value = 255})[0][1].item<int>(), 255);
  EXPECT_EQ(error_of(bytes, {.shape = {}, .value = 256}),
            "padded_batch: `padding_values` for the element is 256, which torch.uint8 cannot hold.");
  EXPECT_EQ(error_of(bytes, {.shape = {}, .value = 0.5}),
            "padded_batch: `padding_values` for the element is 0.5, which torch.uint8 cannot hold.");
}

TEST(PadRows, RefusesFiniteValuesThatWouldBecomeInfinite) {
  const std::vector<Element> halves{at::ones({1}, at::kHalf), at::ones({2}, at::kHalf)};
  EXPECT_EQ(error_of(halves, {.shape = {}, .value = 1e6}),
            "padded_batch: `padding_values` for the element is 1e+06, which torch.float16 cannot hold.");
  EXPECT_EQ(error_of(halves, {.shape = {}, .value = 100000}),
            "padded_batch: `padding_values` for the element is 100000, which torch.float16 cannot hold.");
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(padded(halves, {.shape = {}, .value = -infinity})[0][1].item<double>(), -infinity);
  EXPECT_TRUE(std::isnan(padded(halves, {.shape = {}, .value = std::nan("")})[0][1].item<double>()));
  EXPECT_NEAR(padded(halves, {.shape = {}, .value = 0.1})[0][1].item<double>(), 0.1, 1e-4);
}

TEST(PadRows, RefusesComplexValuesForOtherTensorsWithoutAWarning) {
  const std::vector<Element> rows{at::ones({1}), at::ones({2})};
  const c10::complex<double> value(1, 2);
  c10::WarningUtils::set_warnAlways(true);
  testing::internal::CaptureStderr();
  EXPECT_TRUE(has(error_of(rows, {.shape = {}, .value = value}), "which torch.float32 cannot hold"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  const at::Tensor batch = padded({at::ones({1}, at::kComplexFloat), at::ones({2}, at::kComplexFloat)},
                                  {.shape = {}, .value = value});
  EXPECT_EQ(batch[0][1].item<c10::complex<double>>(), value);
}

TEST(PadRows, RefusesShapesThatNoMemoryHolds) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_EQ(
      error_of({at::ones({1}), at::ones({2})}, {.shape = Dims{kHuge}}),
      "padded_batch: `padded_shapes` makes the element a batch of the shape (2, 4611686018427387904), which "
      "is more than any memory holds.");
  EXPECT_TRUE(has(error_of({at::ones({1, 1})}, {.shape = Dims{kHuge, kHuge}}), "`padded_shapes`"));
  EXPECT_TRUE(has(error_of({string_row("a", true)}, {.shape = Dims{kHuge}}), "`padded_shapes`"));
}

TEST(PadRows, PadsTextWithTextOnly) {
  const std::vector<Element> text{string_row("a", true)};
  const std::vector<Element> bytes{string_row("a", false)};
  const LeafPadding no_text{.shape = Dims{2}, .value = 0, .text = "\xff'", .utf8 = false};
  EXPECT_EQ(
      error_of(text, no_text),
      "padded_batch: `padding_values` for the element is b'\\xff'', which is not utf-8 as the strings are.");
  EXPECT_NO_THROW(pad_rows(bytes, {&no_text, 1}, *host_pool(), "padded_batch"));
}

TEST(PadRows, NamesTheRowThatDoesNotFit) {
  EXPECT_EQ(error_of({at::ones({1}), at::ones({4})}, {.shape = Dims{3}}),
            "padded_batch: the element has the shape (4,) in row 1 of the batch, which is more than "
            "`padded_shapes` allows: (3,).");
  EXPECT_EQ(error_of({at::ones({1}), at::ones({1, 1})}),
            "padded_batch: the element must have one number of dims, but has the shape (1,) in row 0 of the "
            "batch and (1, 1) in row 1.");
  EXPECT_EQ(error_of({at::ones({1}), at::ones({1}, at::kInt)}),
            "padded_batch: the element must have one dtype, but is torch.float32 in row 0 of the batch and "
            "torch.int32 in row 1.");
}

}  // namespace
}  // namespace torch_distinput
