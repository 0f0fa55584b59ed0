// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "remote/http.h"

namespace torch_distinput {

/// While it lives, requests that this thread would make in advance are counted instead: what will be read is
/// told, and nothing is read. One at a time in a thread.
class AnnouncedRequests {
 public:
  AnnouncedRequests() noexcept { of_thread() = this; }
  ~AnnouncedRequests() { of_thread() = nullptr; }
  AnnouncedRequests(const AnnouncedRequests&) = delete;
  AnnouncedRequests& operator=(const AnnouncedRequests&) = delete;

  /// That of this thread; null: requests are made.
  static AnnouncedRequests* current() noexcept { return of_thread(); }

  void add(std::span<const ByteRange> requests) noexcept {
    for (const ByteRange& request : requests) bytes_ += request.size;
    count_ += requests.size();
  }
  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  static AnnouncedRequests*& of_thread() noexcept {
    thread_local AnnouncedRequests* place = nullptr;
    return place;
  }

  std::uint64_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace torch_distinput
