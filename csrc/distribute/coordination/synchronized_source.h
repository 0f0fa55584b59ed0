// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/counters.h"
#include "distribute/coordination/peer_link.h"
#include "distribute/steps/step_source.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// Keeps this rank together with others that read streams of their own, which may end at different steps:
/// hands out the steps of its own stream as far as every rank has one, and empty ones when its own have
/// ended. Ranks talk in rounds, each about all steps that lie ready; a rank that fails fails them all at the
/// same step.
/// Where they read one stream, each for itself, because rows may be skipped, they fail when they come apart.
///
/// One thread reads ahead, as far as `StepsAhead` says, and another holds the rounds, before the consumer
/// needs them. Where nothing is to be read ahead, both happen in the consumer's thread, and each step costs a
/// round. `rounds` go on where a path before this one left them after an interrupt. `row_start`: rows of the
/// epoch before `start`, over all ranks.
std::unique_ptr<StepSource> open_synchronized_source(const DistributionPtr& distribution,
                                                     const IterContext& context, const Start& start,
                                                     const DeviceTransferPtr& transfer,
                                                     std::shared_ptr<PeerRounds> rounds, Counter& counter,
                                                     std::int64_t row_start);

}  // namespace torch_distinput
