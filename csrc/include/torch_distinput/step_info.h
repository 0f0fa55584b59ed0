// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// Where the rows of a step lie when the parts of all its replicas are joined in the order of the replicas.
struct TDI_API RowOrder {
  /// Rows [begin, end) of the joined parts.
  struct Piece {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool operator==(const Piece&) const = default;
  };
  std::int64_t rows = 0;           ///< of all parts together, padding included
  std::vector<Piece> pieces = {};  ///< the rows that count, in the order of the pipeline
  bool operator==(const RowOrder&) const = default;
};

/// What a step holds. Vectors have one entry for each local replica. A value.
struct TDI_API StepInfo {
  std::int64_t epoch = 0;                ///< at least 0
  std::int64_t step = 0;                 ///< 0 for the first step of the epoch
  std::int64_t row_start = 0;            ///< rows of the epoch before this step, over all replicas
  std::vector<std::int64_t> valid = {};  ///< rows that count: all but padding
  std::int64_t global_valid = 0;         ///< sum of `valid` over the replicas of all processes
  std::int64_t num_replicas = 1;         ///< replicas of all processes
  /// `num_replicas * valid / global_valid`, 0 where `global_valid` is 0: multiplied by it, a replica's mean
  /// loss becomes one whose average over the replicas is the global mean.
  std::vector<double> loss_scale = {};
  bool is_last = false;              ///< no step follows in this epoch
  std::vector<bool> has_value = {};  ///< false for a dummy part, which only completes the step
  /// For `restore_order`; nullopt: the joined parts are the rows in order.
  std::optional<RowOrder> order = {};
};

// The functions below are safe from any thread and keep the autograd graph of their arguments.

/// This replica's mean loss, scaled so that the average over the replicas is the mean over the global batch.
/// `replica` is the index of a local one. A replica without rows, whose mean is NaN, gets a zero that depends
/// on `anchor` in the autograd graph, so that `backward` works there too; `anchor` is any tensor that the
/// loss was computed from. Throws c10::ValueError for a replica that `info` does not have.
TDI_API at::Tensor scaled_mean(const at::Tensor& loss, const StepInfo& info, const at::Tensor& anchor,
                               std::int64_t replica = 0);

/// This replica's summed loss (0 where it has no rows), scaled by `num_replicas / global_valid` so that the
/// average over the replicas is the mean over the global batch.
TDI_API at::Tensor distributed_mean(const at::Tensor& loss_sum, const StepInfo& info);

/// The rows of one step in the order of the pipeline and without padding. `rows` are those of all replicas,
/// gathered along dim 0 in the order of the replicas. Throws c10::ValueError where their number is not the
/// step's.
TDI_API at::Tensor restore_order(const at::Tensor& rows, const StepInfo& info);

}  // namespace torch_distinput
