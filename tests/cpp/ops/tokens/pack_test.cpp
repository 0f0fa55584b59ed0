// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <random>
#include <set>

#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "ops/tokens/best_fit.h"
#include "torch_distinput/tokens.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

/// Documents of these sizes; their tokens are numbered over all documents.
Dataset documents_of(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> bounds{0};
  for (const std::int64_t size : sizes) bounds.push_back(bounds.back() + size);
  const auto count = static_cast<std::int64_t>(bounds.size());
  return TokenDataset(at::arange(bounds.back()), at::from_blob(bounds.data(), {count}, at::kLong).clone(),
                      {});
}

TEST(BestFitRows, HoldEachPieceOnceAndNeverTooMany) {
  std::mt19937 engine(3);
  const auto random = [&engine](std::int64_t below) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(below));
  };
  for (int trial = 0; trial < 200; ++trial) {
    const std::int64_t length = 1 + random(20);
    const std::int64_t most = 1 + random(4);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(random(30)));
    for (std::int64_t& count : counts) count = 1 + random(length);
    std::set<std::size_t> seen;
    for (const auto& row : best_fit_rows(counts, length, most)) {
      std::int64_t tokens = 0;
      for (const std::size_t piece : row) {
        tokens += counts[piece];
        EXPECT_TRUE(seen.insert(piece).second);
      }
      EXPECT_LE(tokens, length);
      EXPECT_LE(static_cast<std::int64_t>(row.size()), most);
    }
    EXPECT_EQ(seen.size(), counts.size());
  }
}

TEST(BestFitRows, FillRowsThatGreedyPackingWouldPad) {
  EXPECT_EQ(best_fit_rows({6, 7, 4, 3}, 10, 10), (std::vector<std::vector<std::size_t>>{{0, 2}, {1, 3}}));
}

TEST(Pack, JoinsDocumentsToRowsOfOneLength) {
  const auto rows = collect(documents_of({3, 0, 6}).pack(4, {.pad_id = 99}));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(items(rows[0]["tokens"]), (Values{0, 1, 2, 3}));
  EXPECT_EQ(items(rows[2]["tokens"]), (Values{8, 99, 99, 99}));
  EXPECT_EQ(items(rows[1]["position_ids"]), (Values{0, 1, 2, 3}));
  EXPECT_EQ(items(rows[0]["cu_seqlens"].tensor().to(at::kLong)), (Values{0, 3, 4, 4, 4}));
}

TEST(Pack, PadsDocumentsToAMultiple) {
  const auto rows = collect(documents_of({3, 0, 6}).pack(8, {.pad_id = 99, .pad_to_multiple_of = 2}));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(items(rows[0]["tokens"]), (Values{0, 1, 2, 99, 3, 4, 5, 6}));
  EXPECT_EQ(items(rows[0]["position_ids"]), (Values{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(items(rows[0]["loss_mask"].tensor().to(at::kLong)), (Values{0, 1, 1, 0, 0, 1, 1, 1}));
  EXPECT_EQ(items(rows[0]["cu_seqlens"].tensor().to(at::kLong)), (Values{0, 4, 8, 8, 8}));
  EXPECT_EQ(items(rows[1]["tokens"]), (Values{7, 8, 99, 99, 99, 99, 99, 99}));
  EXPECT_EQ(items(rows[1]["cu_seqlens"].tensor().to(at::kLong)), (Values{0, 2, 8, 8, 8}));
}

TEST(Pack, ObeysTheResumeLaw) {
  const Dataset documents = documents_of({5, 1, 0, 23, 2, 2, 9, 0, 0, 4, 1}).shuffle({.seed = 5});
  for (const auto strategy : {PackStrategy::kGreedy, PackStrategy::kBestFit}) {
    const Dataset rows = documents.pack(6, {.strategy = strategy, .window = 3, .max_documents = 2});
    EXPECT_NO_THROW(testing::assert_resumable(rows));
    EXPECT_NO_THROW(testing::assert_resumable(rows.batch(2)));
  }
}

TEST(Pack, HasRandomAccessWhereLengthsAreKnown) {
  const Dataset documents = documents_of({5, 1, 0, 23, 2, 2, 9, 0, 0, 4, 1});
  for (const auto strategy : {PackStrategy::kGreedy, PackStrategy::kBestFit}) {
    const Dataset rows =
        documents.shuffle({.seed = 5}).pack(6, {.strategy = strategy, .window = 3, .max_documents = 2});
    EXPECT_EQ(rows.ops().back().path, "plan");
    EXPECT_NO_THROW(testing::assert_paths_agree(rows));
    EXPECT_NO_THROW(testing::assert_paths_agree(rows.shuffle({.buffer_size = 4}).batch(2)));
  }
  EXPECT_EQ(documents.pack(6).cardinality(), 8);
  EXPECT_EQ(documents.pack(6).ops().back().facts, "8 rows, 97.9 % filled, 3 of 11 documents cut");
}

}  // namespace
}  // namespace torch_distinput
