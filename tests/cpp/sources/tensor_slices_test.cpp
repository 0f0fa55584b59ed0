// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

Dataset slices(at::Tensor tensor) { return Dataset::from_tensor_slices(Element(std::move(tensor))); }

TEST(FromTensorSlices, YieldsOneElementForEachRow) {
  const Dataset dataset = Dataset::from_tensor_slices(
      Element::dict({{"x", at::arange(12, at::kLong).reshape({4, 3})}, {"y", at::arange(4, at::kLong)}}));
  EXPECT_EQ(dataset.cardinality(), 4);
  EXPECT_EQ(to_string(dataset.element_spec()),
            "{'x': TensorSpec(shape=(3,), dtype=torch.int64), 'y': TensorSpec(shape=(), dtype=torch.int64)}");
  const auto elements = collect(dataset);
  ASSERT_EQ(elements.size(), 4U);
  EXPECT_EQ(items(elements[2]["x"]), (Values{6, 7, 8}));
  EXPECT_EQ(items(elements[2]["y"]), (Values{2}));
}

TEST(FromTensorSlices, ReadsTheUsersMemoryWithoutACopy) {
  const at::Tensor x = at::arange(6, at::kLong).reshape({3, 2});
  const Dataset dataset = slices(x);
  x.add_(10);
  EXPECT_EQ(elements(dataset), (std::vector<Values>{{10, 11}, {12, 13}, {14, 15}}));
}

/// Moves the storage of `tensor` as `share_memory_` does, and overwrites its old memory.
void move_storage(const at::Tensor& tensor) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  at::DataPtr memory = c10::GetCPUAllocator()->allocate(storage.nbytes());
  std::memcpy(memory.get(), storage.data(), storage.nbytes());
  const at::DataPtr before = storage.set_data_ptr(std::move(memory));
  std::memset(before.get(), 7, storage.nbytes());
}

TEST(FromTensorSlices, FollowsAStorageThatMoves) {
  const at::Tensor x = at::arange(6, at::kLong).reshape({3, 2});
  const at::Tensor y = at::arange(4, at::kLong);
  const std::vector<Values> rows = {{0, 1}, {2, 3}, {4, 5}};
  const Dataset dataset = slices(x);
  const Dataset column = slices(y).batch(4);
  DatasetIterator iterator = dataset.iterate({.epoch = 0});
  EXPECT_EQ(items(*iterator.next()), rows[0]);
  move_storage(x);
  move_storage(y);
  EXPECT_EQ(items(*iterator.next()), rows[1]);
  EXPECT_EQ(elements(dataset), rows);
  EXPECT_EQ(elements(column), (std::vector<Values>{{0, 1, 2, 3}}));
}

TEST(FromTensorSlices, ReportsAStorageThatBecameTooSmall) {
  const at::Tensor x = at::arange(6, at::kLong).reshape({3, 2});
  const Dataset dataset = slices(x);
  x.storage().unsafeGetStorageImpl()->set_nbytes(8);
  for (const Dataset& each : {dataset, dataset.batch(2)})
    EXPECT_TRUE(
        has(message_of<c10::Error>([&] { collect(each); }), "rows are read from has lost its memory"));
}

/// The rows of `x`, each with a string.
Dataset beside_strings(const at::Tensor& x) {
  const std::vector<std::string_view> strings(static_cast<std::size_t>(x.size(0)), "s");
  return Dataset::from_tensor_slices(
      Element::dict({{"x", {Structure::leaf(), {x}}}, {"s", {Structure::leaf(), {Bytes::column(strings)}}}}));
}

TEST(FromTensorSlices, KeepsItsRowsBesideStringsWhenTheTensorIsResized) {
  const at::Tensor x = at::arange(6, at::kLong).reshape({3, 2});
  const Dataset dataset = beside_strings(x);
  x.resize_({1});
  EXPECT_EQ(items(collect(dataset.batch(3))[0]["x"]), (Values{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(items(collect(dataset)[2]["x"]), (Values{4, 5}));
}

TEST(FromTensorSlices, TakesAnyStridesBesideStrings) {
  const at::Tensor base = at::arange(60, at::kLong).reshape({5, 3, 4});
  for (const at::Tensor& tensor : {base.slice(0, 0, 5, 2), base.transpose(1, 2), base[0].expand({3, 3, 4})})
    EXPECT_TRUE(collect(beside_strings(tensor).batch(tensor.size(0)))[0]["x"].tensor().equal(tensor));
}

TEST(FromTensorSlices, YieldsMemoryThatTheUserMayWriteTo) {
  const at::Tensor x = at::arange(6, at::kLong).reshape({3, 2});
  for (Element& row : collect(slices(x))) row.tensor().zero_();
  for (Element& batch : collect(slices(x).batch(2))) batch.tensor().zero_();
  EXPECT_EQ(x.sum().item<std::int64_t>(), 15);
}

TEST(FromTensorSlices, TakesAnyStrides) {
  const at::Tensor base = at::arange(60, at::kLong).reshape({5, 3, 4});
  for (const at::Tensor& tensor :
       {base.slice(0, 0, 5, 2), base.slice(1, 0, 2), base.transpose(1, 2), base.permute({2, 1, 0}),
        base.select(2, 1), base[0].expand({3, 3, 4}), base.slice(0, 0, 0), base.unsqueeze(1)}) {
    const auto rows = collect(slices(tensor));
    ASSERT_EQ(static_cast<std::int64_t>(rows.size()), tensor.size(0));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_TRUE(rows[i].tensor().equal(tensor[static_cast<std::int64_t>(i)]));
    }
    if (tensor.size(0) > 0) {
      EXPECT_TRUE(collect(slices(tensor).batch(tensor.size(0)))[0].tensor().equal(tensor));
    }
  }
}

TEST(FromTensorSlices, TakesTensorsThatNeedGradients) {
  const at::Tensor x = at::zeros({2, 2}).requires_grad_();
  EXPECT_FALSE(collect(slices(x))[0].tensor().requires_grad());
}

TEST(FromTensorSlices, TakesRowsWithoutItems) {
  EXPECT_EQ(collect(slices(at::empty({3, 0, 2})).batch(2))[0].tensor().sizes(), at::IntArrayRef({2, 0, 2}));
}

TEST(FromTensorSlices, NamesLeavesThatDisagree) {
  const Element value = Element::dict({{"x", at::zeros({3, 2})}, {"y", at::zeros({4})}});
  EXPECT_EQ(
      message_of<c10::ValueError>([&] { Dataset::from_tensor_slices(value); }),
      "from_tensor_slices: all leaves must have the same size in dim 0, but leaf ['x'] has 3 and leaf ['y'] "
      "has 4.");
}

TEST(FromTensorSlices, RefusesWhatHasNoRows) {
  EXPECT_EQ(message_of<c10::ValueError>([] { slices(at::zeros({})); }),
            "from_tensor_slices: the element is a scalar, but must have rows along dim 0.");
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::from_tensor_slices(Element()); }),
            "from_tensor_slices: the value must have at least one leaf, but is None.");
  EXPECT_EQ(
      message_of<c10::TypeError>([] { slices(at::empty({2}, at::kMeta)); }),
      "from_tensor_slices: the element is on meta, but from_tensor_slices works in host memory; move it with "
      "`.cpu()` first.");
}

TEST(FromTensorSlices, ObeysTheLaws) { expect_laws(slices(at::arange(30, at::kFloat).reshape({10, 3}))); }

}  // namespace
}  // namespace torch_distinput
