// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/peer_text.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// `spec` as text for other processes, with the dims that probes saw. "" for null and for specs that are
/// valid in this process only: those with named tuples, whose classes are this process's, or with nested
/// datasets; and for dtypes that are not plain numbers.
std::string encode_spec(const SpecPtr& spec);

/// The spec in a text; null for "". Throws PeerTextError for a text that `encode_spec` cannot have made.
SpecPtr decode_spec(PeerTextReader text);

/// Dims of a leaf as part of a text.
void encode_dims(PeerTextWriter& text, const Dims& dims);
/// The dims that come next in `text`. Throws PeerTextError for those that no leaf can have.
Dims decode_dims(PeerTextReader& text);

}  // namespace torch_distinput
