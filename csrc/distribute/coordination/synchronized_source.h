// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/counters.h"
#include "distribute/coordination/peer_link.h"
#include "distribute/steps/step_source.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// A source for ranks that read streams of their own, which may end at different steps. It returns a step
/// when every rank has one, and steps without rows when this rank's stream has ended. Ranks agree in rounds,
/// each about all steps that are ready. A rank that fails makes all ranks fail at the same step. If all ranks
/// read one stream, each by itself because rows may be skipped, they fail when their positions differ.
///
/// One thread reads ahead, by `StepsAhead`, and another takes part in rounds before the consumer needs their
/// steps. Without read-ahead, both happen in the consumer's thread, and each step costs a round. `rounds`: a
/// round that an interrupt ended in an earlier source continues. `counters`: count rounds, and the time that
/// this rank waits for others. `row_start`: rows of the epoch before `start`, over all ranks.
std::unique_ptr<StepSource> open_synchronized_source(const DistributionPtr& distribution,
                                                     const IterContext& context, const Start& start,
                                                     const DeviceTransferPtr& transfer,
                                                     std::shared_ptr<PeerRounds> rounds, Counters& counters,
                                                     std::int64_t row_start);

}  // namespace torch_distinput
