// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <complex>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "kernels/rows.h"
#include "runtime/buffer_pool.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

Element stack(std::vector<Element> elements) { return stack_rows(elements, *host_pool(), "batch"); }

TEST(StackRows, JoinsEqualRowsOfEveryDtype) {
  for (const auto dtype :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16,
        at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble, at::kUInt16}) {
    const at::Tensor a = at::arange(6, at::kFloat).reshape({2, 3}).to(dtype);
    const at::Tensor b = at::ones({2, 3}).to(dtype);
    const at::Tensor stacked = stack({Element(a), Element(b)}).tensor();
    EXPECT_EQ(stacked.scalar_type(), dtype);
    EXPECT_TRUE(stacked[0].equal(a)) << dtype;
    EXPECT_TRUE(stacked[1].equal(b)) << dtype;
  }
}

TEST(StackRows, CopiesRowsWhateverTheirStrides) {
  const at::Tensor base = at::arange(120, at::kLong).reshape({4, 5, 6});
  const std::vector<at::Tensor> rows{base.permute({2, 0, 1}), base.permute({2, 0, 1}).contiguous(),
                                     base.permute({2, 1, 0}).transpose(1, 2)};
  const at::Tensor stacked = stack({Element(rows[0]), Element(rows[1]), Element(rows[2])}).tensor();
  EXPECT_TRUE(stacked.equal(at::stack(rows)));
  const at::Tensor expanded = at::arange(3, at::kInt).expand({2, 3});
  EXPECT_TRUE(stack({Element(expanded), Element(expanded)}).tensor().equal(at::stack({expanded, expanded})));
  const at::Tensor every_other = at::arange(8, at::kChar).slice(0, 0, 8, 2);
  EXPECT_TRUE(stack({Element(every_other)}).tensor()[0].equal(every_other));
}

TEST(StackRows, ResolvesLazyConjugates) {
  const at::Tensor value = at::scalar_tensor(c10::complex<double>(1, 2), at::kComplexDouble);
  EXPECT_TRUE(stack({Element(value.conj())}).tensor()[0].equal(value.conj().resolve_conj()));
}

TEST(StackRows, KeepsTheStructureWithItsNones) {
  const auto structure = Structure::tuple({Structure::leaf(), Structure::none()});
  const Element element(structure, {at::zeros({2})});
  const Element stacked = stack({element, element});
  EXPECT_EQ(stacked.structure(), structure);
  EXPECT_EQ(stacked.tensor(0).sizes(), at::IntArrayRef({2, 2}));
}

TEST(StackRows, StacksRowsWithoutItems) {
  EXPECT_EQ(stack({Element(at::empty({0, 3})), Element(at::empty({0, 3}))}).tensor().sizes(),
            at::IntArrayRef({2, 0, 3}));
}

TEST(StackRows, NamesTheLeafAndBothShapes) {
  const Element a = Element::dict({{"x", at::zeros({2})}});
  const Element b = Element::dict({{"x", at::zeros({3})}});
  EXPECT_EQ(message_of<c10::ValueError>([&] { stack({a, a, b}); }),
            "batch: leaf ['x'] must have one shape, but is (2,) in element 0 of the batch and (3,) in "
            "element 2; use padded_batch or ragged_batch, or map it to one shape.");
}

TEST(StackRows, NamesTheLeafAndBothDtypes) {
  EXPECT_EQ(message_of<c10::ValueError>(
                [] { stack({Element(at::zeros({2})), Element(at::zeros({2}, at::kInt))}); }),
            "batch: the element must have one dtype, but is torch.float32 in element 0 of the batch and "
            "torch.int32 in element 1; map it to one dtype.");
}

TEST(StackRows, NamesBothStructures) {
  const Element leaf = at::zeros({2});
  EXPECT_EQ(message_of<c10::ValueError>([&] { stack({leaf, Element::tuple({leaf})}); }),
            "batch: elements must have one structure, but element 0 is * and element 1 is (*,).");
}

TEST(StackRows, RefusesOtherKindsByName) {
  const auto structure = Structure::dict({"x"}, {Structure::leaf()});
  EXPECT_EQ(
      message_of<c10::TypeError>([&] { stack({Element(structure, {NodePtr()})}); }),
      "batch: leaf ['x'] is a dataset leaf, which batch cannot stack yet; map it to a dense tensor first.");
  EXPECT_EQ(
      message_of<c10::TypeError>([&] { stack({Element(structure, {at::eye(2).to_sparse()})}); }),
      "batch: leaf ['x'] has the layout Sparse, which batch cannot stack; map it to a dense tensor first.");
  EXPECT_EQ(message_of<c10::TypeError>([&] { stack({Element(structure, {at::empty({2}, at::kMeta)})}); }),
            "batch: leaf ['x'] is on meta, but batch works in host memory; move it with `.cpu()` first.");
}

TEST(CopyElement, IsIndependentOfTheOriginal) {
  const at::Tensor original = at::arange(6, at::kLong).reshape({2, 3}).t();
  const Element copy = copy_element(Element(original), *host_pool());
  EXPECT_TRUE(copy.tensor().equal(original));
  original.fill_(0);
  EXPECT_EQ(copy.tensor().sum().item<std::int64_t>(), 15);
}

}  // namespace
}  // namespace torch_distinput
