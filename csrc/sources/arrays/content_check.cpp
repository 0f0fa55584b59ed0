// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/arrays/content_check.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <thread>
#include <utility>

#include <unistd.h>

#include "base/stage.h"
#include "core/interrupt_poll.h"
#include "io/byte_source.h"
#include "io/zlib_abi.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kCheckPiece = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kCheckWait{2};

/// Lets other threads compare when this one has ended, also by an interrupt.
class Turn {
 public:
  explicit Turn(std::atomic<int>& comparing) : comparing_(comparing) {}
  ~Turn() { comparing_ = 0; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<int>& comparing_;
};

/// The CRC-32 of zip and gzip of the bytes whose CRC-32 is `before` and then `bytes`; that of no bytes is 0.
std::uint32_t add_to_crc(std::uint32_t before, std::span<const char> bytes) {
  static_assert(kCheckPiece <= std::numeric_limits<unsigned int>::max());  // zlib counts in 32 bits
  return static_cast<std::uint32_t>(::crc32(before, reinterpret_cast<const unsigned char*>(bytes.data()),
                                            static_cast<unsigned int>(bytes.size())));
}

std::uint32_t crc_of(const FilePtr& file, const CheckedPart& part) {
  InterruptPoll poll;
  std::vector<char> piece(static_cast<std::size_t>(std::min<std::uint64_t>(kCheckPiece, part.size)));
  std::uint32_t crc = 0;
  if (part.size == 0) return crc;
  const auto bytes = open_bytes(file, Compression::kNone, part.begin, {});
  for (std::uint64_t left = part.size; left > 0;) {
    poll();
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(left, piece.size()));
    const std::size_t count = bytes->read(std::span(piece).first(wanted));
    if (count == 0) throw FileError(file->path(), part.begin + part.size - left, "the file ends here");
    crc = add_to_crc(crc, std::span(piece).first(count));
    left -= count;
  }
  return crc;
}

}  // namespace

ContentCheck::ContentCheck(std::vector<CheckedPart> parts)
    : parts_(std::move(parts)), state_(parts_.empty() ? State::kRight : State::kUnknown) {}

void ContentCheck::run(const FilePtr& file) const {
  const int process = ::getpid();
  InterruptPoll poll;
  while (state_ == State::kUnknown) {
    int other = comparing_;
    if (other != process && comparing_.compare_exchange_strong(other, process)) {
      const Turn turn(comparing_);
      if (state_ == State::kUnknown) compare(file);
    } else {
      const StageScope waits(Stage::kWait);
      std::this_thread::sleep_for(kCheckWait);
      poll();
    }
  }
  if (state_ == State::kWrong) throw FileError(*error_);
}

void ContentCheck::compare(const FilePtr& file) const {
  for (const CheckedPart& part : parts_) {
    const std::uint32_t crc = crc_of(file, part);
    if (crc == part.crc) continue;
    error_ = FileError(file->path(), part.begin,
                       "the CRC-32 of " + part.name + " is " + std::to_string(crc) + ", but the file says " +
                           std::to_string(part.crc) + "; its bytes are damaged");
    state_ = State::kWrong;
    return;
  }
  state_ = State::kRight;
}

}  // namespace torch_distinput
