// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// How far one process has written and another one has read a ring of bytes. Lies in shared memory; zero
/// bytes are an empty ring.
struct RingCounters {
  alignas(64) std::atomic<std::uint64_t> written;
  std::atomic<std::uint32_t> waits;  // whether the writer has more than fits, and waits for the reader
  alignas(64) std::atomic<std::uint64_t> read;
};

/// The writing end of a ring: sends frames, strings of any length. A frame that fits into the ring becomes
/// visible as a whole. What does not fit waits in the backlog, so that sending never blocks.
class TDI_API FrameSender {
 public:
  /// `bytes` points to `capacity` bytes.
  FrameSender(RingCounters& counters, char* bytes, std::uint64_t capacity);

  void send(std::string_view frame);
  /// Writes as much of the backlog as fits; returns whether any was written.
  bool flush();
  /// Makes the ring and the backlog empty. REQUIRES: the reader has ended.
  void clear() noexcept;
  /// Whether the backlog is empty.
  bool empty() const noexcept { return backlog_.empty(); }

 private:
  std::uint64_t room() const noexcept;
  void write(std::string_view bytes) noexcept;
  bool write_what_fits();

  RingCounters* counters_;
  char* bytes_;
  std::uint64_t capacity_;
  std::string backlog_;
  std::size_t flushed_ = 0;  // of the backlog
};

/// The reading end of a ring.
class TDI_API FrameReceiver {
 public:
  FrameReceiver(RingCounters& counters, const char* bytes, std::uint64_t capacity);

  /// Moves the next frame to `frame`; false if none has arrived as a whole. Sets `made_room` to whether bytes
  /// were taken out of the ring whose room the writer waits for.
  bool receive(std::string& frame, bool& made_room);
  /// Drops what has arrived. REQUIRES: the writer has ended.
  void clear() noexcept;

 private:
  /// Appends up to `size` bytes of the ring to `target`.
  std::uint64_t take(std::string& target, std::uint64_t size);

  RingCounters* counters_;
  const char* bytes_;
  std::uint64_t capacity_;
  std::string length_;   // of the arriving frame, in the machine's byte order
  std::string partial_;  // its bytes so far
};

}  // namespace torch_distinput
