// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "distribute/coordination/handshake.h"

namespace torch_distinput::handshake_testing {

// What summaries must decide, from what all ranks sent, by rank: oracles.

/// Throws as `check_handshakes_agree`.
void check_flat(const std::vector<Handshake>& handshakes);
/// As `SpecSummary::complete`.
SpecPtr complete_flat(const SpecPtr& own, const std::vector<SpecPtr>& of_ranks);

}  // namespace torch_distinput::handshake_testing
