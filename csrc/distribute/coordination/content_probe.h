// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// A hash of the first, middle and last element of each native source with random access, so that processes
/// notice that they were given different data. Of files it takes records, not names, which may differ between
/// machines. Sources that run a user's code are left out: their elements may be random. An element that
/// cannot be read shows up as the text of its error.
std::string content_probe(const NodePtr& node);

}  // namespace torch_distinput
