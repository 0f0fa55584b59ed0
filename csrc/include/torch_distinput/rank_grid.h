// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/process_group.h"

namespace torch_distinput {

/// The processes of a job as a grid of named dims, and the place of one of them. Rows are dealt along some
/// dims; processes that differ in other dims only work on one replica of the model together (tensor, context
/// and pipeline parallelism), and get the same rows. As a whole DeviceMesh in Python.
class TDI_API RankGrid {
 public:
  struct Dim {
    std::string name;
    int size = 1;  ///< processes along it
  };

  /// The names of dims that rows are dealt along, and of those whose processes get the same rows, where a
  /// grid does not say it: those of torch, torchtitan, Accelerate and Lightning.
  static const std::vector<std::string>& known_data_dims();
  static const std::vector<std::string>& known_model_dims();

  /// `dims`: outermost first, so that the place along the last one changes with each rank. `rank`: of this
  /// process in the job. `data_dims`: the names that rows are dealt along; empty: those in
  /// `known_data_dims()`. Throws c10::ValueError for a rank or size out of range, a name that occurs twice,
  /// one in `data_dims` that is no dim, and, without `data_dims`, a dim of several processes whose name is in
  /// neither list.
  RankGrid(std::vector<Dim> dims, int rank, const std::vector<std::string>& data_dims = {});

  /// Processes.
  int size() const noexcept { return size_; }
  /// The ranks that rows are dealt to with this one, and those that get the same rows as this one; both with
  /// this one, ascending.
  std::vector<int> data_ranks() const { return ranks_that_differ(/*in_data_dims=*/true); }
  std::vector<int> peers() const { return ranks_that_differ(/*in_data_dims=*/false); }

  /// The group of `data_ranks()` over the store of `job`, the group of all processes, for a
  /// MultiWorkerMirroredStrategy. Such groups of a job agree on the seeds of data that has none, so that
  /// peers get the same rows; for that, all processes distribute their datasets in the same order. Throws
  /// c10::ValueError if the size or the rank of `job` is another.
  ProcessGroup data_group(const ProcessGroup& job) const;

 private:
  struct Axis {
    int size;
    int stride;  // in ranks
    bool deals_rows;
  };
  std::vector<int> ranks_that_differ(bool in_data_dims) const;

  int rank_;
  int size_ = 1;
  std::vector<Axis> axes_;
};

}  // namespace torch_distinput
