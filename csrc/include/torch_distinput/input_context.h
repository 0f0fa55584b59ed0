// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// What a function that makes a dataset (`distribute_datasets_from_function`) may want to know: which part
/// of the data to read and how to batch it. Fields and texts as tf.distribute.InputContext; ranges are not
/// checked. A value.
struct TDI_API InputContext {
  std::int64_t num_input_pipelines = 1;  ///< how often the function is called, over all processes
  std::int64_t input_pipeline_id = 0;    ///< the number of this call
  std::int64_t num_replicas_in_sync = 1;

  /// `global_batch_size / num_replicas_in_sync`; throws c10::ValueError where that is no whole number.
  std::int64_t get_per_replica_batch_size(std::int64_t global_batch_size) const;
  std::string str() const;
  bool operator==(const InputContext&) const = default;
};

/// What a function that makes one value a replica (`distribute_values_from_function`) may want to know.
struct TDI_API ValueContext {
  std::int64_t replica_id_in_sync_group = 0;
  std::int64_t num_replicas_in_sync = 1;

  std::string str() const;
  bool operator==(const ValueContext&) const = default;
};

}  // namespace torch_distinput
