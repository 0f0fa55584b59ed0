// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// Tells a function that makes a dataset (`distribute_datasets_from_function`) which part of the data to read
/// and how to batch it. Fields and texts are those of tf.distribute.InputContext; ranges are not checked. A
/// value.
struct TDI_API InputContext {
  std::int64_t num_input_pipelines = 1;   ///< calls of the function, over all processes
  std::int64_t input_pipeline_id = 0;     ///< the number of this call, in [0, num_input_pipelines)
  std::int64_t num_replicas_in_sync = 1;  ///< replicas of all processes

  /// `global_batch_size / num_replicas_in_sync`; throws c10::ValueError where that is not a whole number.
  std::int64_t get_per_replica_batch_size(std::int64_t global_batch_size) const;
  /// The text that tf.distribute prints.
  std::string str() const;
  bool operator==(const InputContext&) const = default;
};

/// Tells a function that makes one value for each replica (`distribute_values_from_function`) which one to
/// make. A value.
struct TDI_API ValueContext {
  std::int64_t replica_id_in_sync_group = 0;  ///< over all processes, in [0, num_replicas_in_sync)
  std::int64_t num_replicas_in_sync = 1;      ///< replicas of all processes

  /// The text that tf.distribute prints.
  std::string str() const;
  bool operator==(const ValueContext&) const = default;
};

}  // namespace torch_distinput
