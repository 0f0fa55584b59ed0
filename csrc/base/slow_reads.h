// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace torch_distinput {

/// Notes that this thread asks a network for bytes, or waits for bytes that somebody has asked for.
void note_slow_read() noexcept;

/// How often this thread has done that or has read from a disk what the kernel did not have in memory.
std::int64_t slow_reads() noexcept;

/// Whether the innermost SlowReadWatch of this thread, if there is one, knows of slow reads.
bool reads_slowly() noexcept;

/// Sets `was_slow` at its end where this thread has read slowly meanwhile.
class SlowReadWatch {
 public:
  explicit SlowReadWatch(std::atomic<bool>& was_slow) noexcept;
  ~SlowReadWatch();
  SlowReadWatch(const SlowReadWatch&) = delete;
  SlowReadWatch& operator=(const SlowReadWatch&) = delete;

 private:
  std::atomic<bool>& was_slow_;
  const std::atomic<bool>* outer_;
  std::int64_t before_;
};

}  // namespace torch_distinput
