// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/gather_together.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "sources/columns/block_rows.h"
#include "sources/columns/rows_together.h"

namespace torch_distinput {
namespace {

using Rows = std::vector<std::int64_t>;

constexpr std::int64_t kRows = 90;
constexpr std::size_t kStored = 5;

/// The leaves of a block: numbers of 1, 2, 4 and 8 bytes, and three numbers of 4 bytes a row. `first` tells
/// blocks apart.
std::vector<Leaf> leaves_from(std::int64_t first) {
  const at::Tensor numbers = at::arange(first, first + kRows).remainder(120);
  return {numbers.to(at::kByte), numbers.to(at::kShort), numbers.to(at::kFloat), numbers.to(at::kLong),
          at::arange(3 * first, 3 * (first + kRows)).remainder(997).to(at::kInt).view({kRows, 3})};
}

BlockPtr block_of(std::vector<Leaf> leaves) {
  std::vector<StructurePtr> parts(leaves.size(), Structure::leaf());
  return std::make_shared<const RowBlock>(
      with_rows_together({Element(Structure::tuple(std::move(parts)), std::move(leaves)), kRows}));
}

/// A leaf for each stored one but the third, and two float leaves side by side as a last one.
RowType some_type() {
  RowType type;
  for (const std::size_t stored : {0, 1, 3, 4}) type.sources.push_back({{stored}});
  type.sources.push_back({{2, 2}});
  return type;
}

at::Tensor leaf_of(const BlockPtr& block, const std::vector<std::size_t>& stored) {
  std::vector<at::Tensor> parts;
  for (const std::size_t leaf : stored)
    parts.push_back(std::get<at::Tensor>(block->value.leaves()[leaf]).contiguous().view({kRows, -1}));
  return at::cat(parts, 1);
}

TEST(GatherTogether, WritesTheRowsOfManyBlocksWhereTheyBelong) {
  std::mt19937_64 random(1);
  const RowType type = some_type();
  for (int tries = 0; tries < 100; ++tries) {
    std::vector<BlockPtr> blocks;
    for (std::int64_t i = 0; i < 6; ++i) blocks.push_back(block_of(leaves_from(1000 * i + tries)));
    std::vector<Rows> rows(1 + random() % 60);
    std::vector<BlockRun> runs;
    std::int64_t count = 0;
    for (Rows& run : rows) {
      run.resize(1 + random() % (random() % 10 == 0 ? 50 : 2));
      for (std::int64_t& row : run) row = static_cast<std::int64_t>(random() % kRows);
      runs.push_back({blocks[random() % blocks.size()], run, count});
      count += std::ssize(run);
    }
    Rows slots(static_cast<std::size_t>(count));
    std::iota(slots.begin(), slots.end(), std::int64_t{0});
    const bool has_slots = random() % 2 == 0;
    if (has_slots) std::shuffle(slots.begin(), slots.end(), random);

    std::vector<at::Tensor> made;
    std::vector<RowSink> sinks;
    for (const auto& source : type.sources) {
      const at::Tensor like = leaf_of(blocks.front(), source.stored);
      made.push_back(at::empty({count, like.size(1)}, like.options()));
      sinks.push_back({static_cast<char*>(made.back().mutable_data_ptr()),
                       like.size(1) * static_cast<std::int64_t>(like.element_size())});
    }
    ASSERT_TRUE(lie_together(runs));
    gather_runs(type, runs, has_slots ? slots : Rows{}, sinks);

    for (std::size_t leaf = 0; leaf < made.size(); ++leaf) {
      std::size_t slot = 0;
      for (const BlockRun& run : runs) {
        const at::Tensor expected = leaf_of(run.block, type.sources[leaf].stored);
        for (const std::int64_t row : run.rows)
          ASSERT_TRUE(at::equal(made[leaf][slots[slot++]], expected[row]));
      }
    }
  }
}

TEST(GatherTogether, BlocksOfWhichOneLiesApartDoNotLieTogether) {
  const BlockPtr together = block_of(leaves_from(0));
  std::vector<StructurePtr> parts(kStored, Structure::leaf());
  const auto apart = std::make_shared<const RowBlock>(
      RowBlock{Element(Structure::tuple(std::move(parts)), leaves_from(0)), kRows});
  const Rows rows{0};
  const std::vector<BlockRun> runs{{together, rows, 0}, {apart, rows, 1}};
  EXPECT_TRUE(lie_together(std::span(runs).first(1)));
  EXPECT_FALSE(lie_together(runs));
}

}  // namespace
}  // namespace torch_distinput
