// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// A hash, in hexadecimal, of the first, middle and last element of each native source with random access, so
/// that processes detect that they were given different data. Files contribute records, not names, which may
/// differ between machines. Sources that run users' code are left out, because their elements may be random.
/// If an element cannot be read, returns the text of the error. Throws nothing.
std::string content_probe(const NodePtr& node);

}  // namespace torch_distinput
