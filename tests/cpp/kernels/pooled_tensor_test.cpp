// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "kernels/rows.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

std::shared_ptr<BufferPool> new_pool() { return BufferPool::create(page_allocator(), std::size_t{1} << 24); }

TEST(PooledTensor, HasTheShapeAndDtypeAskedFor) {
  const auto pool = new_pool();
  const std::array<std::int64_t, 3> shape{2, 3, 4};
  for (const auto dtype :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16,
        at::kFloat, at::kDouble, at::kComplexHalf, at::kComplexFloat, at::kComplexDouble, at::kFloat8_e4m3fn,
        at::kFloat8_e5m2, at::kUInt16, at::kUInt32, at::kUInt64}) {
    const at::Tensor tensor = pooled_tensor(shape, dtype, *pool);
    EXPECT_EQ(tensor.scalar_type(), dtype);
    EXPECT_EQ(tensor.sizes(), at::IntArrayRef(shape));
    EXPECT_TRUE(tensor.is_contiguous());
    EXPECT_TRUE(tensor.device().is_cpu());
    EXPECT_EQ(tensor.nbytes(), 24 * c10::elementSize(dtype));
  }
}

TEST(PooledTensor, MayBeScalarOrEmpty) {
  const auto pool = new_pool();
  EXPECT_EQ(pooled_tensor({}, at::kLong, *pool).dim(), 0);
  const std::array<std::int64_t, 2> shape{0, 5};
  EXPECT_EQ(pooled_tensor(shape, at::kFloat, *pool).sizes(), at::IntArrayRef({0, 5}));
}

TEST(PooledTensor, ReturnsItsBlockWithTheLastTensorOnIt) {
  const auto pool = new_pool();
  const std::array<std::int64_t, 1> shape{100};
  at::Tensor tensor = pooled_tensor(shape, at::kFloat, *pool);
  const void* const data = tensor.const_data_ptr();
  at::Tensor view = tensor.slice(0, 10, 20);
  tensor.reset();
  EXPECT_GT(pool->stats().outstanding_bytes, 0);
  view.reset();
  EXPECT_EQ(pool->stats().outstanding_bytes, 0);
  EXPECT_EQ(pooled_tensor(shape, at::kFloat, *pool).const_data_ptr(), data);
  EXPECT_EQ(pool->stats().allocations, 1);
}

TEST(PooledTensor, MayBeResizedByItsUser) {
  const auto pool = new_pool();
  const std::array<std::int64_t, 1> shape{4};
  at::Tensor tensor = pooled_tensor(shape, at::kLong, *pool);
  tensor.fill_(7);
  tensor.resize_({1000});
  EXPECT_EQ(tensor[3].item<std::int64_t>(), 7);
}

TEST(MakeBatch, GivesEachLeafABlockOfItsOwn) {
  const auto pool = new_pool();
  const RowLayout layout{Structure::dict({"x", "y"}, {Structure::leaf(), Structure::leaf()}),
                         {{at::kFloat, {3}, 12}, {at::kLong, {}, 8}}};
  BatchBuffer batch = make_batch(layout, 5, *pool);
  EXPECT_EQ(batch.element["x"].tensor().sizes(), at::IntArrayRef({5, 3}));
  EXPECT_EQ(batch.element["y"].tensor().sizes(), at::IntArrayRef({5}));
  EXPECT_EQ(batch.sinks[0].data, static_cast<char*>(batch.element.tensor(0).mutable_data_ptr()));
  EXPECT_EQ(batch.sinks[0].row_bytes, 12);
  EXPECT_EQ(batch.sinks[1].row_bytes, 8);
  const at::Tensor kept = batch.element.tensor(1);
  const std::int64_t both = pool->stats().outstanding_bytes;
  batch = {};
  EXPECT_LT(pool->stats().outstanding_bytes, both);
  EXPECT_GT(pool->stats().outstanding_bytes, 0);
}

TEST(MakeBatch, PutsSmallLeavesIntoOneBlockWhereThePoolPacks) {
  const auto pool = BufferPool::create(page_allocator(), std::size_t{1} << 24, Packing::kTogether);
  const StructurePtr leaf = Structure::leaf();
  const RowLayout layout{Structure::tuple({leaf, leaf, leaf}),
                         {{at::kByte, {3}, 3}, {at::kFloat, {1 << 18}, 1 << 20}, {at::kLong, {}, 8}}};
  BatchBuffer batch = make_batch(layout, 2, *pool);
  EXPECT_EQ(pool->stats().allocations, 2);
  EXPECT_EQ(batch.sinks[2].data - batch.sinks[0].data, 256);
  EXPECT_EQ(batch.element.tensor(2).sizes(), at::IntArrayRef({2}));
  EXPECT_EQ(batch.sinks[2].data, static_cast<char*>(batch.element.tensor(2).mutable_data_ptr()));
  EXPECT_FALSE(batch.element.tensor(0).storage().is_alias_of(batch.element.tensor(1).storage()));
}

}  // namespace
}  // namespace torch_distinput
