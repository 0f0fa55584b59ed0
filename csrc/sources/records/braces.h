// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace torch_distinput {

/// As the public `expand_braces`; `op` begins the messages of errors.
std::vector<std::string> expand_braces(const std::string& pattern, const std::string& op);

}  // namespace torch_distinput
