// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/transfer/in_flight_copies.h"

#include <utility>

namespace torch_distinput {

void InFlightCopies::add(Event arrived, PinnedBuffers buffers,
                         std::shared_ptr<std::atomic<std::int64_t>> on_the_way) {
  const std::lock_guard lock(mutex_);
  *on_the_way += buffers.bytes;
  entries_.push_back({std::move(arrived), std::move(buffers), std::move(on_the_way)});
}

void InFlightCopies::collect() {
  std::deque<Entry> read;  // destroyed after the lock: a tensor may be the last owner of a user's memory
  const std::lock_guard lock(mutex_);
  while (!entries_.empty() && engine_->query(entries_.front().arrived)) {
    *entries_.front().on_the_way -= entries_.front().buffers.bytes;
    read.push_back(std::move(entries_.front()));
    entries_.pop_front();
  }
}

}  // namespace torch_distinput
