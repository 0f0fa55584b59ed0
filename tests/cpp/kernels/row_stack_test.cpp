// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/row_stack.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "runtime/buffer_pool.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

/// Adds the rows one by one.
Element stack_one_by_one(const std::vector<Element>& rows) {
  RowStack stack(std::ssize(rows), *host_pool(), "batch");
  for (const Element& row : rows) stack.add(row);
  return stack.finish();
}

Element xy(const at::Tensor& x, const at::Tensor& y) { return Element::dict({{"x", x}, {"y", y}}); }

TEST(RowStack, StacksRowsOfAnyStrides) {
  const at::Tensor base = at::arange(24, at::kLong).reshape({4, 6});
  const std::vector<at::Tensor> rows = {base, base.flip(0), at::full({6, 4}, 7, at::kLong).t()};
  RowStack stack(3, *host_pool(), "batch");
  stack.add(xy(rows[0], at::zeros({})));
  stack.add(xy(rows[1], at::zeros({})));
  stack.add(xy(rows[2], at::zeros({}).add(1)));
  const Element batch = stack.finish();
  EXPECT_EQ(batch.structure(), xy(base, base).structure());
  EXPECT_TRUE(batch.tensor(0).equal(at::stack(rows)));
  EXPECT_TRUE(batch.tensor(1).equal(at::arange(3).eq(2).to(at::kFloat)));
}

TEST(RowStack, HoldsNoRowThatItHasCopied) {
  const at::Tensor row = at::zeros({4});
  RowStack stack(2, *host_pool(), "batch");
  stack.add(Element(row));
  stack.add(Element(row));
  EXPECT_EQ(row.use_count(), 1);
  row.fill_(1);
  EXPECT_TRUE(stack.finish().tensor().equal(at::zeros({2, 4})));
}

TEST(RowStack, StacksRowsWithoutItems) {
  EXPECT_EQ(stack_one_by_one({Element(at::empty({0, 3})), Element(at::empty({0, 3}))}).tensor().sizes(),
            at::IntArrayRef({2, 0, 3}));
}

TEST(RowStack, JoinsRowsOfOtherKinds) {
  const auto structure = Structure::dict({"x"}, {Structure::leaf()});
  const Element batch = stack_one_by_one(
      {Element(structure, {Bytes::single("one")}), Element(structure, {Bytes::single("two")})});
  const auto& strings = std::get<Bytes>(batch.leaves()[0]);
  EXPECT_EQ(strings[0], "one");
  EXPECT_EQ(strings[1], "two");
}

Element named(const at::Tensor& row, const char* name) {
  return {
      Structure::dict({"name", "row", "turned"}, {Structure::leaf(), Structure::leaf(), Structure::leaf()}),
      {Bytes::single(name), row, row.t()}};
}

TEST(RowStack, CopiesDenseLeavesAndHoldsOthers) {
  const at::Tensor base = at::arange(6).view({2, 3});
  const at::Tensor row = base.clone();
  RowStack stack(3, *host_pool(), "batch");
  for (const char* name : {"one", "two", "three"}) {
    row.add_(1);
    stack.add(named(row, name));
  }
  EXPECT_EQ(row.use_count(), 1);
  const Element batch = stack.finish();
  EXPECT_EQ(batch.structure(), named(row, "").structure());
  EXPECT_EQ(std::get<Bytes>(batch.leaves()[0])[2], "three");
  const at::Tensor rows = at::stack({base + 1, base + 2, base + 3});
  EXPECT_TRUE(batch.tensor(1).equal(rows));
  EXPECT_TRUE(batch.tensor(2).equal(rows.transpose(1, 2)));
}

TEST(RowStack, NamesTheLeafOfARowUnlikeThoseCopied) {
  const at::Tensor row = at::zeros({2, 3});
  const Element a = named(row, "a"), b = named(row, "b"), wide = named(at::zeros({2, 4}), "c");
  EXPECT_EQ(message_of<c10::ValueError>([&] { stack_one_by_one({a, b, wide, a}); }),
            "batch: leaf ['row'] must have one shape, but is (2, 3) in element 0 of the batch and (2, 4) in "
            "element 2; use padded_batch or ragged_batch, or map it to one shape.");
  Element other = b;
  other.leaves()[0] = row;
  EXPECT_EQ(message_of<c10::ValueError>([&] { stack_one_by_one({a, b, other}); }),
            "batch: leaf ['name'] must have one kind, but is bytes in element 0 of the batch and dense in "
            "element 2; map it to one kind.");
}

TEST(RowStack, RefusesWhatStackRowsRefuses) {
  const Element a = at::zeros({2});
  EXPECT_EQ(message_of<c10::ValueError>([&] { stack_one_by_one({a, a, Element(at::zeros({3})), a}); }),
            "batch: the element must have one shape, but is (2,) in element 0 of the batch and (3,) in "
            "element 2; use padded_batch or ragged_batch, or map it to one shape.");
  EXPECT_EQ(message_of<c10::ValueError>([&] { stack_one_by_one({a, Element(at::zeros({2}, at::kInt))}); }),
            "batch: the element must have one dtype, but is torch.float32 in element 0 of the batch and "
            "torch.int32 in element 1; map it to one dtype.");
  EXPECT_EQ(message_of<c10::ValueError>([&] { stack_one_by_one({a, Element::tuple({a})}); }),
            "batch: elements must have one structure, but element 0 is * and element 1 is (*,).");
  EXPECT_EQ(message_of<c10::TypeError>([&] { stack_one_by_one({a, Element(at::zeros({2}).to_sparse())}); }),
            "batch: the element has the layout Sparse, which batch cannot stack; map it to a dense tensor "
            "first.");
  EXPECT_EQ(message_of<c10::TypeError>([&] { stack_one_by_one({a, Element(at::empty({2}, at::kMeta))}); }),
            "batch: the element is on meta, but batch works in host memory; move it with `.cpu()` first.");
}

}  // namespace
}  // namespace torch_distinput
