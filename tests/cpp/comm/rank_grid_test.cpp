// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/rank_grid.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "support/errors.h"

namespace torch_distinput {
namespace {

using Dims = std::vector<RankGrid::Dim>;

/// The places of a rank along the dims, by counting as an odometer does.
std::vector<int> places(const Dims& dims, int rank) {
  std::vector<int> at(dims.size());
  for (int step = 0; step < rank; ++step)
    for (auto dim = static_cast<int>(dims.size()) - 1; dim >= 0; --dim) {
      const auto i = static_cast<std::size_t>(dim);
      if (++at[i] < dims[i].size) break;
      at[i] = 0;
    }
  return at;
}

/// The ranks whose places equal those of `rank` along all dims but the chosen ones.
std::vector<int> ranks_that_differ(const Dims& dims, int size, int rank, const std::vector<bool>& chosen) {
  std::vector<int> ranks;
  for (int other = 0; other < size; ++other) {
    bool same = true;
    for (std::size_t i = 0; i < dims.size(); ++i)
      same = same && (chosen[i] || places(dims, other)[i] == places(dims, rank)[i]);
    if (same) ranks.push_back(other);
  }
  return ranks;
}

TEST(RankGrid, DealsRowsAlongDataDimsInAnyOrder) {
  const std::vector<Dims> grids = {{{"dp", 2}, {"tp", 2}, {"pp", 2}},
                                   {{"pp", 3}, {"dp_replicate", 2}, {"dp_shard", 2}, {"cp", 1}, {"tp", 2}},
                                   {{"tp", 4}, {"batch", 2}},
                                   {{"batch", 5}},
                                   {{"tp", 3}},
                                   {}};
  for (const Dims& dims : grids) {
    int size = 1;
    std::vector<bool> data;
    std::vector<bool> model;
    for (const RankGrid::Dim& dim : dims) {
      size *= dim.size;
      data.push_back(dim.name[0] == 'd' || dim.name == "batch");
      model.push_back(!data.back());
    }
    for (int rank = 0; rank < size; ++rank) {
      const RankGrid grid(dims, rank);
      EXPECT_EQ(grid.size(), size);
      EXPECT_EQ(grid.data_ranks(), ranks_that_differ(dims, size, rank, data));
      EXPECT_EQ(grid.peers(), ranks_that_differ(dims, size, rank, model));
    }
  }
}

TEST(RankGrid, DealsRowsAlongTheDimsThatAreNamed) {
  const RankGrid grid({{"x", 2}, {"y", 3}}, 4, {"y"});
  EXPECT_EQ(grid.data_ranks(), (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(grid.peers(), (std::vector<int>{1, 4}));
}

TEST(RankGrid, GroupsOfOneJobHaveNamesOfTheirOwn) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::map<std::string, std::set<std::vector<int>>> members;
  for (const Dims& dims : {Dims{{"dp", 2}, {"tp", 4}}, Dims{{"tp", 4}, {"dp", 2}}, Dims{{"dp", 8}},
                           Dims{{"dp", 2}, {"tp", 2}, {"dp_shard", 2}}, Dims{{"tp", 2}, {"dp", 4}}})
    for (int rank = 0; rank < 8; ++rank) {
      const RankGrid grid(dims, rank);
      const ProcessGroup group = grid.data_group(ProcessGroup(*store, rank, 8, "job"));
      const std::vector<int> ranks = grid.data_ranks();
      EXPECT_EQ(group.size, static_cast<int>(ranks.size()));
      EXPECT_EQ(ranks[static_cast<std::size_t>(group.rank)], rank);
      members[group.name].insert(ranks);
    }
  for (const auto& [name, ranks] : members) EXPECT_EQ(ranks.size(), 1) << name;
}

TEST(RankGrid, WrongGridsAreErrorsThatNameTheRule) {
  const auto thrown = [](const Dims& dims, int rank, const std::vector<std::string>& data_dims) {
    return message_of<c10::ValueError>([&] { const RankGrid grid(dims, rank, data_dims); });
  };
  EXPECT_TRUE(has(thrown({{"dp", 2}}, 2, {}), "`rank` must be in [0, 2), but is 2."));
  EXPECT_TRUE(has(thrown({{"dp", 2}}, -1, {}), "but is -1."));
  EXPECT_TRUE(has(thrown({{"dp", 0}}, 0, {}), "the size of 'dp' must be at least 1"));
  EXPECT_TRUE(has(thrown({{"dp", 1 << 20}, {"tp", 1 << 20}}, 0, {}), "the product of all"));
  EXPECT_TRUE(has(thrown({{"dp", 2}, {"dp", 2}}, 0, {}), "two dims have the name 'dp'."));
  EXPECT_TRUE(has(thrown({{"x", 2}, {"dp", 2}}, 0, {}), "rows are dealt along 'x' of a grid of 'x', 'dp'"));
  EXPECT_TRUE(has(thrown({{"dp", 2}}, 0, {"tp"}), "names 'tp', but the dims of the grid are 'dp'."));
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const RankGrid grid({{"dp", 2}, {"tp", 2}}, 1);
  const auto text = message_of<c10::ValueError>([&] { (void)grid.data_group(ProcessGroup(*store, 1, 2)); });
  EXPECT_TRUE(has(text, "the grid has 4 processes, of which this is rank 1, but `job` has 2"));
}

}  // namespace
}  // namespace torch_distinput
