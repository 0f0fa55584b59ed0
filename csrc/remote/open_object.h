// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/polling.h"
#include "remote/http.h"
#include "remote/range_transfer.h"

namespace torch_distinput {

/// One version of an object, open for reading. Safe from any thread.
class OpenObject {
 public:
  virtual ~OpenObject() = default;

  virtual const std::string& url() const noexcept = 0;
  virtual const ObjectVersion& version() const noexcept = 0;
  /// Asks for bytes that will be read soon, where the store can be asked in advance. Does not wait.
  virtual void will_read(std::span<const ByteRange> ranges) = 0;
  /// Fills `into` with the bytes from `offset` on and returns how many were read: fewer than `into.size()`
  /// only at the end of the object. Calls `poll` while it waits; what that throws ends the wait. Throws
  /// ObjectError.
  virtual std::size_t read(std::span<char> into, std::uint64_t offset, const Poll& poll) = 0;
};
using OpenObjectPtr = std::shared_ptr<OpenObject>;

}  // namespace torch_distinput
