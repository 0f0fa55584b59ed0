// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/leaf_rows.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "kernels/rows.h"
#include "runtime/buffer_pool.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

using Strings = std::vector<std::string>;
using Items = std::vector<std::int64_t>;

Element bare(Leaf leaf) { return {Structure::leaf(), {std::move(leaf)}}; }

template <class Kind>
const Kind& leaf_of(const Element& element) {
  return std::get<Kind>(element.leaves().front());
}

Element batch_of(const std::vector<Element>& elements) { return stack_rows(elements, *host_pool(), "batch"); }

Element text(std::string_view string) { return bare(Bytes::single(string, true)); }

Element column(const Strings& strings) {
  return bare(Bytes::column(std::vector<std::string_view>(strings.begin(), strings.end()), true));
}

Strings strings(const Element& element) {
  const auto& leaf = leaf_of<Bytes>(element);
  Strings result;
  for (std::int64_t i = 0; i < leaf.count(); ++i) result.emplace_back(leaf[i]);
  return result;
}

Element lengths(const Items& sizes) {
  std::vector<Element> rows;
  for (const std::int64_t size : sizes) rows.emplace_back(at::arange(size, at::kLong) + 10 * size);
  return stack_ragged_rows(rows, {true}, *host_pool(), "ragged_batch");
}

std::vector<Items> rows_of(const Element& element) {
  std::vector<Items> rows;
  for (std::int64_t row = 0; row < element.rows().value(); ++row) {
    const at::Tensor items = row_of(leaf_of<Ragged>(element), row).contiguous();
    const auto* data = items.const_data_ptr<std::int64_t>();
    rows.emplace_back(data, data + items.numel());
  }
  return rows;
}

at::Tensor dense(const Element& element) { return leaf_of<Sparse>(element).value.to_dense(); }

TEST(StringRows, AreStackedSlicedAndJoined) {
  const Element batch = batch_of({text("a"), text(""), text("cde"), text("f")});
  EXPECT_EQ(strings(batch), (Strings{"a", "", "cde", "f"}));
  EXPECT_EQ(leaf_of<Bytes>(batch).shape, (Dims{4}));
  const Element tail = slice_rows(batch, 2, 4, "rebatch");
  EXPECT_EQ(strings(tail), (Strings{"cde", "f"}));
  EXPECT_EQ(leaf_of<Bytes>(tail).values.const_data_ptr(), leaf_of<Bytes>(batch).values.const_data_ptr());
  const std::vector<Element> parts{tail, slice_rows(batch, 0, 0, "rebatch"),
                                   slice_rows(batch, 0, 1, "rebatch")};
  EXPECT_EQ(strings(concat_rows(parts, "rebatch")), (Strings{"cde", "f", "a"}));
}

TEST(StringRows, ARowIsASingleString) {
  const Element row = take_row(slice_rows(column({"x", "yy", "zzz"}), 1, 3, "unbatch"), 1, "unbatch");
  EXPECT_EQ(strings(row), (Strings{"zzz"}));
  EXPECT_TRUE(leaf_of<Bytes>(row).shape.empty());
  EXPECT_TRUE(leaf_of<Bytes>(row).utf8);
}

TEST(StringRows, OfHigherRankKeepTheirDims) {
  const Element batch = batch_of({column({"a", "b"}), column({"c", "dd"})});
  EXPECT_EQ(leaf_of<Bytes>(batch).shape, (Dims{2, 2}));
  EXPECT_EQ(strings(slice_rows(batch, 1, 2, "rebatch")), (Strings{"c", "dd"}));
  EXPECT_EQ(leaf_of<Bytes>(take_row(batch, 1, "unbatch")).shape, (Dims{2}));
  EXPECT_EQ(strings(take_row(batch, 1, "unbatch")), (Strings{"c", "dd"}));
}

TEST(StringRows, ACopyHasMemoryOfItsOwn) {
  const Element rest = slice_rows(column({"long string", "b"}), 1, 2, "cache");
  const Element copied = copy_element(rest, *host_pool());
  EXPECT_EQ(strings(copied), (Strings{"b"}));
  EXPECT_EQ(leaf_of<Bytes>(copied).values.numel(), 1);
}

TEST(StringRows, RefuseMixedEncodingsAndShapes) {
  EXPECT_EQ(message_of<c10::ValueError>([&] { batch_of({text("a"), bare(Bytes::single("b"))}); }),
            "batch: the element must have one encoding, but is utf-8 in element 0 of the batch and bytes in "
            "element 1; use str or bytes everywhere.");
  EXPECT_EQ(
      message_of<c10::ValueError>([&] { batch_of({column({"a"}), column({"b", "c"})}); }),
      "batch: the element must have one shape, but is (1,) in element 0 of the batch and (2,) in element "
      "1; map it to one shape.");
}

TEST(LeafRows, RefuseMixedKinds) {
  EXPECT_EQ(message_of<c10::ValueError>([&] { batch_of({text("a"), Element(at::zeros({}))}); }),
            "batch: the element must have one kind, but is bytes in element 0 of the batch and dense in "
            "element 1; map it to one kind.");
}

TEST(LeafRows, RefuseASingleStringAndASingleObjectWhereRowsAreNeeded) {
  const std::string wanted =
      "rebatch: the element is a scalar, but must have rows along dim 0; call batch first.";
  EXPECT_EQ(message_of<c10::ValueError>([&] { slice_rows(text("a"), 0, 1, "rebatch"); }), wanted);
  EXPECT_EQ(
      message_of<c10::ValueError>([&] { slice_rows(bare(Opaque{{nullptr}, {}, ""}), 0, 1, "rebatch"); }),
      wanted);
}

TEST(RaggedRows, AreStackedSlicedAndJoined) {
  const Element batch = lengths({2, 0, 1, 3});
  EXPECT_EQ(rows_of(batch), (std::vector<Items>{{20, 21}, {}, {10}, {30, 31, 32}}));
  const Element middle = slice_rows(batch, 1, 3, "rebatch");
  EXPECT_EQ(rows_of(middle), (std::vector<Items>{{}, {10}}));
  EXPECT_EQ(bare(leaf_of<Ragged>(middle)).bytes(), 8);
  const std::vector<Element> parts{middle, slice_rows(batch, 0, 0, "x"), slice_rows(batch, 3, 4, "x")};
  EXPECT_EQ(rows_of(concat_rows(parts, "rebatch")), (std::vector<Items>{{}, {10}, {30, 31, 32}}));
  EXPECT_EQ(rows_of(copy_element(middle, *host_pool())), rows_of(middle));
}

TEST(RaggedRows, KeepTheirInnerDims) {
  const std::vector<Element> rows{Element(at::zeros({2, 3})), Element(at::zeros({0, 3}))};
  const Element batch = stack_ragged_rows(rows, {true}, *host_pool(), "ragged_batch");
  EXPECT_EQ(to_string(spec_of(batch)),
            "RaggedTensorSpec(shape=(2, None, 3), dtype=torch.float32, ragged_rank=1)");
  EXPECT_EQ(take_row(batch, 0, "unbatch").tensor().sizes(), at::IntArrayRef({2, 3}));
}

TEST(RaggedRows, RefuseASecondRaggedDim) {
  EXPECT_EQ(message_of<c10::ValueError>([&] { batch_of({lengths({1, 2}), lengths({1, 2})}); }),
            "batch: the element is ragged, so that a batch of it would have two ragged dims, but one is the "
            "limit; map it to dense rows and call ragged_batch.");
  const std::vector<Element> rows{Element(at::zeros({2, 3})), Element(at::zeros({2, 4}))};
  EXPECT_EQ(
      message_of<c10::ValueError>([&] { stack_ragged_rows(rows, {true}, *host_pool(), "ragged_batch"); }),
      "ragged_batch: the element must have one shape beyond dim 0, but is (3,) in element 0 of the batch "
      "and (4,) in element 1; only dim 0 may vary, so map the others to one size or use padded_batch.");
}

TEST(SparseRows, AreStackedSlicedAndJoined) {
  const at::Tensor rows = at::remainder(at::arange(12, at::kLong).reshape({3, 4}), 3);
  std::vector<Element> elements;
  for (std::int64_t row = 0; row < 3; ++row) elements.push_back(bare(Sparse{rows[row].to_sparse()}));
  const Element batch = batch_of(elements);
  EXPECT_TRUE(at::equal(dense(batch), rows));
  EXPECT_TRUE(leaf_of<Sparse>(batch).value.is_coalesced());
  EXPECT_TRUE(at::equal(dense(slice_rows(batch, 1, 3, "x")), rows.slice(0, 1, 3)));
  EXPECT_TRUE(at::equal(dense(take_row(batch, 2, "x")), rows[2]));
  EXPECT_TRUE(at::equal(dense(copy_element(batch, *host_pool())), rows));
  const std::vector<Element> parts{slice_rows(batch, 2, 3, "x"), slice_rows(batch, 0, 0, "x"),
                                   slice_rows(batch, 0, 2, "x")};
  EXPECT_TRUE(at::equal(dense(concat_rows(parts, "x")), at::stack({rows[2], rows[0], rows[1]})));
}

TEST(SparseRows, NeedNotBeSorted) {
  const at::Tensor indices = at::tensor({2, 0, 1, 0, 0, 1, 1, 0}, at::kLong).reshape({2, 4});
  const auto unsorted = at::sparse_coo_tensor(indices, at::arange(1, 5, at::kLong), {3, 2});
  const Element element = bare(Sparse{unsorted});
  const at::Tensor all = unsorted.to_dense();
  EXPECT_TRUE(at::equal(dense(slice_rows(element, 0, 2, "x")), all.slice(0, 0, 2)));
  EXPECT_TRUE(at::equal(dense(take_row(element, 0, "x")), all[0]));
}

TEST(SparseRows, AVectorHasSparseScalarsAsRows) {
  const Element vector = bare(Sparse{at::tensor({0, 7, 0}, at::kLong).to_sparse()});
  const Element zero = take_row(vector, 0, "x");
  const Element seven = take_row(vector, 1, "x");
  EXPECT_EQ(dense(zero).item<std::int64_t>(), 0);
  EXPECT_EQ(dense(seven).item<std::int64_t>(), 7);
  EXPECT_TRUE(at::equal(dense(batch_of({zero, seven, zero})), at::tensor({0, 7, 0}, at::kLong)));
}

TEST(SparseRows, RefuseOtherShapes) {
  EXPECT_EQ(message_of<c10::ValueError>([&] {
              batch_of({bare(Sparse{at::eye(2).to_sparse()}), bare(Sparse{at::eye(3).to_sparse()})});
            }),
            "batch: the element must have one shape, but is (2, 2) in element 0 of the batch and (3, 3) in "
            "element 1; map it to one shape.");
}

TEST(OpaqueRows, AreStackedSlicedAndJoined) {
  std::vector<Element> elements;
  std::vector<std::shared_ptr<void>> objects;
  for (int i = 0; i < 3; ++i) {
    objects.push_back(std::make_shared<int>(i));
    elements.push_back(bare(Opaque{{objects.back()}, {}, "int"}));
  }
  const Element batch = batch_of(elements);
  EXPECT_EQ(batch.rows(), 3);
  EXPECT_EQ(leaf_of<Opaque>(batch).objects, objects);
  EXPECT_EQ(leaf_of<Opaque>(take_row(batch, 1, "x")).objects.front(), objects[1]);
  const std::vector<Element> parts{slice_rows(batch, 2, 3, "x"), slice_rows(batch, 0, 1, "x")};
  const Element joined = concat_rows(parts, "x");
  EXPECT_EQ(joined.rows(), 2);
  EXPECT_EQ(leaf_of<Opaque>(joined).objects.front(), objects[2]);
  EXPECT_EQ(slice_rows(batch, 1, 1, "x").rows(), 0);
}

}  // namespace
}  // namespace torch_distinput
