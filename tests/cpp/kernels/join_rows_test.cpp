// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "kernels/rows.h"
#include "support/errors.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

Element table(std::int64_t rows) {
  return Element::dict(
      {{"x", at::arange(3 * rows, at::kLong).reshape({rows, 3})}, {"y", at::arange(rows, at::kInt)}});
}

TEST(SliceRows, SharesTheMemoryOfTheRows) {
  const Element element = table(5);
  const Element slice = slice_rows(element, 1, 4, "rebatch");
  EXPECT_TRUE(slice["x"].tensor().equal(element["x"].tensor().slice(0, 1, 4)));
  EXPECT_EQ(slice["y"].tensor().const_data_ptr(), element["y"].tensor()[1].const_data_ptr());
}

TEST(SliceRows, HaveAVersionCounterOfTheirOwn) {
  const Element element = table(5);
  const auto version = element["y"].tensor()._version();
  slice_rows(element, 0, 2, "rebatch")["y"].tensor().fill_(9);
  EXPECT_EQ(element["y"].tensor()._version(), version);
  EXPECT_EQ(element["y"].tensor()[0].item<int>(), 9);
}

TEST(SliceRows, MayBeEmpty) {
  const Element slice = slice_rows(table(5), 2, 2, "rebatch");
  EXPECT_EQ(slice["x"].tensor().sizes(), at::IntArrayRef({0, 3}));
}

TEST(SliceRows, CutStridedRowsOfASlice) {
  const at::Tensor strided = at::arange(40, at::kLong).reshape({10, 4}).slice(0, 1, 10, 2).slice(1, 0, 4, 3);
  const Element slice = slice_rows(slice_rows(Element(strided), 1, 5, "rebatch"), 1, 3, "rebatch");
  EXPECT_TRUE(slice.tensor().equal(strided.slice(0, 2, 4)));
}

TEST(SliceRows, RefuseAScalarByName) {
  const Element element = Element::dict({{"x", at::zeros({2})}, {"n", at::zeros({})}});
  EXPECT_EQ(message_of<c10::ValueError>([&] { slice_rows(element, 0, 1, "rebatch"); }),
            "rebatch: leaf ['n'] is a scalar, but must have rows along dim 0; call batch first.");
}

TEST(TakeRow, DropsDimZero) {
  const Element element = table(4);
  const Element row = take_row(element, 2, "unbatch");
  EXPECT_TRUE(row["x"].tensor().equal(element["x"].tensor()[2]));
  EXPECT_EQ(row["y"].tensor().dim(), 0);
  EXPECT_EQ(row["y"].tensor().item<int>(), 2);
}

TEST(ConcatRows, JoinsAlongDimZeroWhateverTheStrides) {
  const at::Tensor a = at::arange(12, at::kLong).reshape({3, 4}).t();
  const at::Tensor b = at::arange(6, at::kLong).reshape({2, 3});
  const std::vector<Element> parts{Element(a), Element(b), slice_rows(Element(b), 0, 0, "rebatch")};
  EXPECT_TRUE(concat_rows(parts, "rebatch").tensor().equal(at::cat({a, b})));
}

TEST(ConcatRows, ReturnsOneElementAsItIs) {
  const Element element = table(3);
  EXPECT_EQ(concat_rows({&element, 1}, "rebatch")["x"].tensor().const_data_ptr(),
            element["x"].tensor().const_data_ptr());
}

TEST(ConcatRows, NameTheLeafThatDiffers) {
  const std::vector<Element> shapes{at::zeros({2, 3}), at::zeros({2, 4})};
  EXPECT_EQ(message_of<FailedPreconditionError>([&] { concat_rows(shapes, "rebatch"); }),
            "rebatch: the element must have one shape beyond dim 0, but is (3,) in element 0 and (4,) in "
            "element 1; map it to one shape.");
  const std::vector<Element> dtypes{at::zeros({2}), at::zeros({2}, at::kInt)};
  EXPECT_EQ(message_of<c10::ValueError>([&] { concat_rows(dtypes, "rebatch"); }),
            "rebatch: the element must have one dtype, but is torch.float32 in element 0 and torch.int32 in "
            "element 1; map it to one dtype.");
  const std::vector<Element> structures{at::zeros({2}), table(2)};
  EXPECT_THROW(concat_rows(structures, "rebatch"), c10::ValueError);
}

}  // namespace
}  // namespace torch_distinput
