// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// The threads that work on something. `name`: as debuggers and traces show it, or `kArenaThreads`. A
/// `count` of 0 means the consumer's thread.
struct ThreadUse {
  std::string name = {};
  std::int64_t count = 0;
};

/// The name of the threads that all native work of the process shares.
inline constexpr const char* kArenaThreads = "arena";

/// "caller", or "tdi-map (3)".
inline std::string to_string(const ThreadUse& use) {
  return use.count == 0 ? "caller" : use.name + " (" + std::to_string(use.count) + ")";
}

/// An op that works on threads of its own where it runs in sequence; other ops run in their consumer's
/// thread.
class OwnThreads {
 public:
  virtual ~OwnThreads() = default;
  /// The threads that do the work of the op itself.
  virtual ThreadUse work_threads(const IterContext& context) const = 0;
  /// The threads that read its inputs, where these are not the consumer's.
  virtual ThreadUse input_threads() const { return {}; }
};

}  // namespace torch_distinput
