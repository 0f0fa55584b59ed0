// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/rows_together.h"

#include <array>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

constexpr std::array kDtypes{at::kByte, at::kBool,   at::kShort,         at::kInt, at::kFloat,
                             at::kLong, at::kDouble, at::kComplexDouble, at::kHalf};

at::Tensor numbers_of(std::int64_t rows, std::int64_t width, c10::ScalarType dtype, std::int64_t first) {
  at::Tensor numbers = at::arange(first, first + rows * width).remainder(97).to(dtype);
  return width == 1 ? numbers : numbers.view({rows, width});
}

Bytes some_strings(std::int64_t rows) {
  return {at::arange(rows, at::kByte), at::arange(rows + 1, at::kLong), {rows}, false};
}

RowBlock row_block(std::vector<Leaf> leaves, std::int64_t rows) {
  std::vector<StructurePtr> parts(leaves.size(), Structure::leaf());
  return {Element(Structure::tuple(std::move(parts)), std::move(leaves)), rows};
}

const at::Tensor& leaf_of(const RowBlock& block, std::size_t leaf) {
  return std::get<at::Tensor>(block.value.leaves()[leaf]);
}

std::ptrdiff_t stride_of(const RowBlock& block, std::size_t leaf) { return block.dense[leaf].stride; }

TEST(RowsTogether, HaveTheValuesThatTheyHadApart) {
  std::mt19937_64 random(1);
  for (int tries = 0; tries < 300; ++tries) {
    const auto rows = static_cast<std::int64_t>(random() % 700);
    std::vector<Leaf> leaves;
    for (std::uint64_t leaf = random() % 8; leaf-- > 0;) {
      if (random() % 8 == 0) {
        leaves.emplace_back(some_strings(rows % 200));
      } else {
        const auto width = static_cast<std::int64_t>(random() % 6 == 0 ? random() % 9 : 1);
        leaves.emplace_back(numbers_of(rows, width, kDtypes[random() % kDtypes.size()], tries));
      }
    }
    const RowBlock apart = row_block(leaves, rows);
    const RowBlock together = with_rows_together(apart);
    ASSERT_EQ(together.rows, rows);
    ASSERT_EQ(together.value.bytes(), apart.value.bytes());
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      if (!std::holds_alternative<at::Tensor>(leaves[leaf])) continue;
      const at::Tensor& found = leaf_of(together, leaf);
      ASSERT_EQ(found.scalar_type(), leaf_of(apart, leaf).scalar_type());
      ASSERT_EQ(found.sizes(), leaf_of(apart, leaf).sizes());
      ASSERT_TRUE(at::equal(found, leaf_of(apart, leaf)));
      ASSERT_EQ(together.dense[leaf].data, found.const_data_ptr());
      ASSERT_TRUE(rows == 0 || found.select(0, 0).is_contiguous());
    }
  }
}

TEST(RowsTogether, LieNextToEachOther) {
  const RowBlock together = with_rows_together(row_block(
      {numbers_of(10, 1, at::kByte, 0), numbers_of(10, 1, at::kLong, 0), numbers_of(10, 3, at::kFloat, 0)},
      10));
  for (std::size_t leaf = 0; leaf < 3; ++leaf) EXPECT_EQ(stride_of(together, leaf), 24);
  EXPECT_EQ(together.dense[2].data - together.dense[1].data, 8);
  EXPECT_EQ(together.dense[0].data - together.dense[1].data, 20);
}

TEST(RowsTogether, StayApartWhereThatIsNoGain) {
  const RowBlock few =
      row_block({numbers_of(10, 1, at::kLong, 0), numbers_of(10, 1, at::kFloat, 0), some_strings(10)}, 10);
  EXPECT_EQ(with_rows_together(few).dense[0].data, few.dense[0].data);
  const RowBlock wide = row_block(
      {numbers_of(10, 60, at::kFloat, 0), numbers_of(10, 1, at::kLong, 0), numbers_of(10, 2, at::kLong, 0)},
      10);
  EXPECT_EQ(with_rows_together(wide).dense[0].data, wide.dense[0].data);
}

}  // namespace
}  // namespace torch_distinput
