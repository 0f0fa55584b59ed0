// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/rank_grid.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include <c10/util/Exception.h>

#include "comm/agreed_seeds.h"
#include "comm/c10d_store.h"

namespace torch_distinput {
namespace {

using DimNames = std::vector<std::string>;

bool is_in(const DimNames& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string quoted_names(const DimNames& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

void check_names(const DimNames& names, const DimNames& data_dims) {
  for (auto name = names.begin(); name != names.end(); ++name)
    TORCH_CHECK_VALUE(std::find(names.begin(), name, *name) == name, "RankGrid: two dims have the name '",
                      *name, "'.");
  for (const std::string& name : data_dims)
    TORCH_CHECK_VALUE(is_in(names, name), "RankGrid: `data_dims` names '", name,
                      "', but the dims of the grid are ", quoted_names(names), ".");
}

bool deals_rows(const DimNames& names, const RankGrid::Dim& dim, const DimNames& data_dims) {
  if (!data_dims.empty()) return is_in(data_dims, dim.name);
  const bool data = is_in(RankGrid::known_data_dims(), dim.name);
  TORCH_CHECK_VALUE(data || dim.size == 1 || is_in(RankGrid::known_model_dims(), dim.name),
                    "RankGrid: nothing says whether rows are dealt along '", dim.name, "' of a grid of ",
                    quoted_names(names), "; pass `data_dims`. Known are ",
                    quoted_names(RankGrid::known_data_dims()), ", and ",
                    quoted_names(RankGrid::known_model_dims()), ", whose processes get the same rows.");
  return data;
}

}  // namespace

const DimNames& RankGrid::known_data_dims() {
  static const DimNames names = {"batch",         "dp",        "dp_replicate", "dp_shard", "ddp", "fsdp",
                                 "data_parallel", "replicate", "shard"};
  return names;
}

const DimNames& RankGrid::known_model_dims() {
  static const DimNames names = {
      "tp", "cp", "pp", "ep", "etp", "sp", "tensor_parallel", "context_parallel", "pipeline_parallel"};
  return names;
}

RankGrid::RankGrid(std::vector<Dim> dims, int rank, const DimNames& data_dims) : rank_(rank) {
  DimNames names;
  for (const Dim& dim : dims) names.push_back(dim.name);
  check_names(names, data_dims);
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    TORCH_CHECK_VALUE(dim->size >= 1 && dim->size <= std::numeric_limits<int>::max() / size_,
                      "RankGrid: the size of '", dim->name,
                      "' must be at least 1, and the product of all at most ",
                      std::numeric_limits<int>::max(), ", but the size is ", dim->size, ".");
    axes_.push_back({dim->size, size_, deals_rows(names, *dim, data_dims)});
    size_ *= dim->size;
  }
  TORCH_CHECK_VALUE(rank >= 0 && rank < size_, "RankGrid: `rank` must be in [0, ", size_, "), but is ", rank,
                    ".");
}

std::vector<int> RankGrid::ranks_that_differ(bool in_data_dims) const {
  int first = rank_;
  for (const Axis& axis : axes_)
    if (axis.deals_rows == in_data_dims) first -= rank_ / axis.stride % axis.size * axis.stride;
  std::vector<int> ranks = {first};
  // From the innermost dim on, so that they ascend.
  for (const Axis& axis : axes_) {
    if (axis.deals_rows != in_data_dims) continue;
    const std::size_t inner = ranks.size();
    for (int place = 1; place < axis.size; ++place)
      for (std::size_t i = 0; i < inner; ++i) ranks.push_back(ranks[i] + place * axis.stride);
  }
  return ranks;
}

ProcessGroup RankGrid::data_group(const ProcessGroup& job) const {
  TORCH_CHECK_VALUE(job.size == size_ && job.rank == rank_, "RankGrid.data_group: the grid has ", size_,
                    " processes, of which this is rank ", rank_, ", but `job` has ", job.size,
                    ", of which it is rank ", job.rank, ".");
  TORCH_CHECK_VALUE(job.store != nullptr, "RankGrid.data_group: `job` must have a store.");
  const std::vector<int> ranks = data_ranks();
  const auto place = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
  std::string name = job.name + "/rows from " + std::to_string(ranks.front());
  for (const Axis& axis : axes_)
    if (axis.deals_rows && axis.size > 1)
      name += ", " + std::to_string(axis.size) + " by " + std::to_string(axis.stride);
  ProcessGroup group(*job.store, static_cast<int>(place), static_cast<int>(ranks.size()), std::move(name));
  group.seeds_ = std::make_shared<AgreedSeeds>(c10d_store(job));
  return group;
}

}  // namespace torch_distinput
