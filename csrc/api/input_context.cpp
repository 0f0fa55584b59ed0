// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/input_context.h"

#include <c10/util/Exception.h>

namespace torch_distinput {

std::int64_t InputContext::get_per_replica_batch_size(std::int64_t global_batch_size) const {
  TORCH_CHECK_VALUE(num_replicas_in_sync > 0 && global_batch_size % num_replicas_in_sync == 0,
                    "The `global_batch_size` ", global_batch_size,
                    " is not divisible by `num_replicas_in_sync` ", num_replicas_in_sync, " ");
  return global_batch_size / num_replicas_in_sync;
}

std::string InputContext::str() const {
  return "tf.distribute.InputContext(input pipeline id " + std::to_string(input_pipeline_id) +
         ", total: " + std::to_string(num_input_pipelines) + ")";
}

std::string ValueContext::str() const {
  return "tf.distribute.ValueContext(replica id " + std::to_string(replica_id_in_sync_group) +
         ",  total replicas in sync: " + std::to_string(num_replicas_in_sync) + ")";
}

}  // namespace torch_distinput
