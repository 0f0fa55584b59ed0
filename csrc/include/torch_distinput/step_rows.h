// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/input_options.h"

namespace torch_distinput {

/// Which rows of an epoch each replica gets in each step where all replicas share one stream: the arithmetic
/// of `Strategy::distribute_dataset`, without its data. Rows are numbered in the order in which `batches`
/// yields them. Cheap to copy; safe from any thread.
class TDI_API StepRows {
 public:
  /// Reads no rows. Throws c10::ValueError where the number of rows is not known before reading, or never
  /// ends, and for options or numbers of replicas that strategies refuse.
  StepRows(const Dataset& batches, std::int64_t num_replicas, const InputOptions& options);

  /// Steps of an epoch, as `DistributedDataset::num_steps`.
  std::int64_t num_steps() const;
  /// The rows that replica `replica` gets in step `step`, in order, with those that the tail repeats. Throws
  /// c10::IndexError for a step or replica that does not exist.
  std::vector<std::int64_t> rows(std::int64_t step, std::int64_t replica) const;
  /// How many rows count in step `step`, over all replicas. Throws c10::IndexError.
  std::int64_t global_valid(std::int64_t step) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace torch_distinput
