// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace torch_distinput {

/// The bytes of the object at `url`; nullopt where there is none, it cannot be read, or is larger than
/// `most`. Waits for its server and calls the thread's `current_poll` meanwhile. Safe from any thread.
std::optional<std::vector<char>> read_whole_object(const std::string& url, std::uint64_t most);

}  // namespace torch_distinput
