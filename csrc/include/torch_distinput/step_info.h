// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// Where the rows of a step lie when the parts of all its replicas are put one after the other.
struct TDI_API RowOrder {
  struct Piece {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool operator==(const Piece&) const = default;
  };
  std::int64_t rows = 0;           ///< of all parts together, padding included
  std::vector<Piece> pieces = {};  ///< the rows that count, in the order of the pipeline
  bool operator==(const RowOrder&) const = default;
};

/// What a step holds. Vectors have one entry per local replica.
struct TDI_API StepInfo {
  std::int64_t epoch = 0;
  std::int64_t step = 0;                 ///< 0 for the first step of the epoch
  std::int64_t row_start = 0;            ///< rows of the epoch before this step, over all replicas
  std::vector<std::int64_t> valid = {};  ///< rows that count
  std::int64_t global_valid = 0;         ///< sum of `valid` over all replicas everywhere
  std::int64_t num_replicas = 1;
  /// `num_replicas * valid / global_valid`, 0 where `global_valid` is 0: turns a
  /// mean loss into one whose average over the replicas is the global mean.
  std::vector<double> loss_scale = {};
  bool is_last = false;
  std::vector<bool> has_value = {};  ///< false exactly for made-up (dummy) parts
  /// For `restore_order`; nullopt: the parts one after the other are the rows in order.
  std::optional<RowOrder> order = {};
};

// The functions below may be called on any thread, and keep the autograd graph of their arguments.

/// This replica's mean loss, scaled so that the average over the replicas is the mean over the global batch.
/// `replica` is a local one. A replica without rows, whose mean is NaN, gets a zero that hangs on the graph
/// of `anchor`, any tensor that the loss was computed from, so that `backward` works there too.
/// Throws c10::ValueError for a replica that `info` does not have.
TDI_API at::Tensor scaled_mean(const at::Tensor& loss, const StepInfo& info, const at::Tensor& anchor,
                               std::int64_t replica = 0);

/// This replica's summed loss (0 where it has no rows), scaled so that the average over the replicas is the
/// mean over the global batch.
TDI_API at::Tensor distributed_mean(const at::Tensor& loss_sum, const StepInfo& info);

/// One step's rows, gathered along dim 0 in the order of the replicas, in the order of the pipeline and
/// without padding. Throws c10::ValueError where `rows` has another number of rows than the step.
TDI_API at::Tensor restore_order(const at::Tensor& rows, const StepInfo& info);

}  // namespace torch_distinput
