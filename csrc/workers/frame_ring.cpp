// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/frame_ring.h"

#include <algorithm>
#include <cstring>

namespace torch_distinput {

FrameSender::FrameSender(RingCounters& counters, char* bytes, std::uint64_t capacity)
    : counters_(&counters), bytes_(bytes), capacity_(capacity) {}

std::uint64_t FrameSender::room() const noexcept {
  return capacity_ - (counters_->written.load(std::memory_order_relaxed) -
                      counters_->read.load(std::memory_order_seq_cst));
}

void FrameSender::write(std::string_view bytes) noexcept {
  const std::uint64_t written = counters_->written.load(std::memory_order_relaxed);
  const std::uint64_t at = written % capacity_;
  const std::uint64_t first = std::min<std::uint64_t>(bytes.size(), capacity_ - at);
  std::memcpy(bytes_ + at, bytes.data(), first);
  std::memcpy(bytes_, bytes.data() + first, bytes.size() - first);
  counters_->written.store(written + bytes.size(), std::memory_order_release);
}

void FrameSender::send(std::string_view frame) {
  const std::uint64_t length = frame.size();
  backlog_.append(reinterpret_cast<const char*>(&length), sizeof(length)).append(frame);
  flush();
}

bool FrameSender::flush() {
  bool any = write_what_fits();
  if (!empty() && counters_->waits.load(std::memory_order_relaxed) == 0) {
    counters_->waits.store(1, std::memory_order_seq_cst);
    any = write_what_fits() || any;  // the reader may have made room before it saw that
  }
  if (empty() && counters_->waits.load(std::memory_order_relaxed) != 0) {
    counters_->waits.store(0, std::memory_order_relaxed);
  }
  return any;
}

bool FrameSender::write_what_fits() {
  const std::size_t left = backlog_.size() - flushed_;
  const std::uint64_t free = room();
  // What fits into an empty ring waits until all of it fits, so that a frame is written as a whole.
  if (left == 0 || free == 0 || (left > free && left <= capacity_)) return false;
  const std::size_t size = std::min<std::size_t>(left, free);
  write(std::string_view(backlog_).substr(flushed_, size));
  flushed_ += size;
  if (flushed_ == backlog_.size()) {
    backlog_.clear();
    flushed_ = 0;
  }
  return true;
}

void FrameSender::clear() noexcept {
  backlog_.clear();
  flushed_ = 0;
  counters_->read.store(counters_->written.load());
}

FrameReceiver::FrameReceiver(RingCounters& counters, const char* bytes, std::uint64_t capacity)
    : counters_(&counters), bytes_(bytes), capacity_(capacity) {}

std::uint64_t FrameReceiver::take(std::string& target, std::uint64_t size) {
  const std::uint64_t read = counters_->read.load(std::memory_order_relaxed);
  size = std::min(size, counters_->written.load(std::memory_order_acquire) - read);
  if (size == 0) return 0;
  const std::uint64_t at = read % capacity_;
  const std::uint64_t first = std::min(size, capacity_ - at);
  target.append(bytes_ + at, first).append(bytes_, size - first);
  counters_->read.store(read + size, std::memory_order_seq_cst);
  return size;
}

bool FrameReceiver::receive(std::string& frame, bool& made_room) {
  std::uint64_t length = 0;
  std::uint64_t taken = take(length_, sizeof(length) - length_.size());
  if (length_.size() == sizeof(length)) {
    std::memcpy(&length, length_.data(), sizeof(length));
    taken += take(partial_, length - partial_.size());
  }
  made_room = taken > 0 && counters_->waits.load(std::memory_order_seq_cst) != 0;
  if (length_.size() < sizeof(length) || partial_.size() < length) return false;
  frame.swap(partial_);
  partial_.clear();
  length_.clear();
  return true;
}

void FrameReceiver::clear() noexcept {
  length_.clear();
  partial_.clear();
  counters_->read.store(counters_->written.load());
}

}  // namespace torch_distinput
