// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/peer_text.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// `spec` as text for other processes, with the dims that probes saw. "" for null and for specs that are
/// valid in this process only: those with named tuples, whose classes are this process's, or with nested
/// datasets; and for dtypes that are not plain numbers.
std::string encode_spec(const SpecPtr& spec);

/// The spec in a text; null for "". Throws PeerTextError for a text that `encode_spec` cannot have made.
SpecPtr decode_spec(PeerTextReader text);

/// `own`, completed from `of_ranks`, the specs that the ranks sent, by rank. The lowest rank that knows it
/// provides what `own` lacks: the whole spec, or the dims that a probe saw where declared dims are unknown.
/// Null if no rank knows the spec.
SpecPtr complete_spec(const SpecPtr& own, const std::vector<SpecPtr>& of_ranks);

}  // namespace torch_distinput
