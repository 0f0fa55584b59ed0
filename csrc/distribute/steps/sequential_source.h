// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distribute/steps/step_source.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// A source that reads the elements of the pipeline in order and cuts them, for pipelines without a plan or
/// whose plan does not know its rows. With `per_replica_buffer_size` k > 0, a thread reads about 1 + 2k
/// batches ahead. A native plan reads ahead itself, so its elements are cut in `next`, as they are under
/// `Reading::kHere`.
std::unique_ptr<StepSource> open_sequential_source(const DistributionPtr& distribution,
                                                   const IterContext& context, const Start& start,
                                                   const DeviceTransferPtr& transfer, Reading reading);

}  // namespace torch_distinput
