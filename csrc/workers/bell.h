// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// Wakes a process that waits for a change in shared memory. Lies in that memory itself; zero bytes are a new
/// bell. Ringing makes a system call only while a process sleeps. A process may be killed at any point of its
/// calls: the others then wait no longer than their own limit.
class TDI_API Bell {
 public:
  /// Call before looking whether there is anything to wait for.
  std::uint32_t listen() const noexcept { return rings_.load(std::memory_order_seq_cst); }
  /// Call after the change.
  void ring() noexcept;
  /// Sleeps until the next ring after `listen` returned `heard`, a signal, or the end of `limit`; may return
  /// early.
  void wait(std::uint32_t heard, std::chrono::nanoseconds limit) noexcept;

 private:
  /// Yields for some microseconds. Returns whether there was a ring.
  bool rings_soon(std::uint32_t heard) const noexcept;

  std::atomic<std::uint32_t> rings_;
  std::atomic<std::uint32_t> sleepers_;
};

}  // namespace torch_distinput
