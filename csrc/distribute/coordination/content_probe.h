// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// A hash, in hexadecimal, of the first, middle and last element of each native source with random access, so
/// that processes detect that they were given different data. Files contribute records, not names, which may
/// differ between machines. Of files that are read in whole blocks, the rows of each block count, too, and of
/// objects only these. Sources that run users' code are left out, because their elements may be random.
/// If an element cannot be read, returns the text of the error. Throws nothing.
std::string content_probe(const NodePtr& node);

/// Asks for the elements that `content_probe` looks at, where they come over a network, in the name of the
/// thread's `AheadClaim`. Does not wait. Throws what plans throw.
void announce_content_probe(const NodePtr& node);

}  // namespace torch_distinput
