// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <future>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "torch_distinput/dataset.h"
#include "torch_distinput/multi_worker.h"
#include "torch_distinput/rank_grid.h"

namespace torch_distinput {
namespace {

using Rows = std::vector<std::int64_t>;

constexpr std::int64_t kRows = 29;

/// The rows of process `rank` of a grid, here of one thread, in two epochs of data without a seed.
std::vector<Rows> rows_of(const RankGrid& grid, int rank, c10d::Store& store) {
  const MultiWorkerMirroredStrategy strategy(grid.data_group(ProcessGroup(store, rank, grid.size())),
                                             {"cpu"});
  const DistributedDataset rows =
      strategy.distribute_dataset(Dataset::range(kRows).shuffle({.buffer_size = kRows}).batch(8));
  std::vector<Rows> epochs(2);
  for (Rows& epoch : epochs)
    for (const PerReplica& step : rows) {
      const at::Tensor part = step[0].tensor();
      epoch.insert(epoch.end(), part.data_ptr<std::int64_t>(), part.data_ptr<std::int64_t>() + part.numel());
    }
  return epochs;
}

TEST(GridsOfProcesses, PeersGetTheSameRowsOfDataWithoutASeed) {
  for (const std::vector<RankGrid::Dim>& dims :
       std::vector<std::vector<RankGrid::Dim>>{{{"dp", 2}, {"tp", 2}},
                                               {{"pp", 3}, {"dp", 1}},
                                               {{"tp", 2}, {"dp_replicate", 2}, {"dp_shard", 2}}}) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    std::vector<std::future<std::vector<Rows>>> running;
    for (int rank = 0; rank < RankGrid(dims, 0).size(); ++rank)
      running.push_back(
          std::async(std::launch::async, [&, rank] { return rows_of(RankGrid(dims, rank), rank, *store); }));
    std::vector<std::vector<Rows>> seen;
    for (auto& one : running) seen.push_back(one.get());
    for (int rank = 0; rank < static_cast<int>(seen.size()); ++rank) {
      const RankGrid grid(dims, rank);
      const auto& mine = seen[static_cast<std::size_t>(rank)];
      for (const int peer : grid.peers()) EXPECT_EQ(seen[static_cast<std::size_t>(peer)], mine);
      for (std::size_t epoch = 0; epoch < mine.size(); ++epoch) {
        Rows all;
        for (const int other : grid.data_ranks()) {
          const Rows& rows = seen[static_cast<std::size_t>(other)][epoch];
          all.insert(all.end(), rows.begin(), rows.end());
        }
        std::sort(all.begin(), all.end());
        Rows expected(kRows);
        std::iota(expected.begin(), expected.end(), std::int64_t{0});
        EXPECT_EQ(all, expected);
      }
      EXPECT_NE(mine[0], mine[1]);
    }
  }
}

}  // namespace
}  // namespace torch_distinput
