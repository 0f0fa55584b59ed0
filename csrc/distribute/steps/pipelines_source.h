// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "distribute/steps/step_source.h"

namespace torch_distinput {

/// A source that runs the pipelines of the local replicas together: its step t is made of their steps t. A
/// replica whose data has ended gets zero rows; under `kUntilFirst` the epoch ends before that step.
/// `sources`: one for each local replica, opened at the positions of `start`. REQUIRES:
/// `distribution->pipelines` is not empty.
std::unique_ptr<StepSource> join_pipelines(const DistributionPtr& distribution, const Start& start,
                                           std::vector<std::unique_ptr<StepSource>> sources);

}  // namespace torch_distinput
