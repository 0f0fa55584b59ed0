// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// Numbers that differ where the orders drawn in two contexts may differ.
std::vector<std::int64_t> order_key(const IterContext& context);

/// What an op found out of its inputs for the orders that were read last, because a plan of one epoch is
/// asked for several times: for its size, for an explanation, for each iterator. Safe from any thread.
template <class Value>
class EpochCache {
 public:
  using Key = std::vector<std::int64_t>;
  using ValuePtr = std::shared_ptr<const Value>;

  /// The value of `key`, which `make` returns if it is not known. `make` runs without a lock, perhaps on
  /// several threads, because it may run users' code.
  template <class Make>
  ValuePtr get(Key key, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::find_if(entries_.begin(), entries_.end(),
                                      [&](const auto& entry) { return entry.first == key; });
      if (found != entries_.end()) return found->second;
    }
    ValuePtr value = make();
    const std::lock_guard lock(mutex_);
    entries_.emplace_front(std::move(key), value);
    if (entries_.size() > kKept) entries_.pop_back();
    return value;
  }

 private:
  /// Epochs, or rounds of a `repeat`, that are read at about the same time.
  static constexpr std::size_t kKept = 4;

  std::mutex mutex_;
  std::deque<std::pair<Key, ValuePtr>> entries_;
};

}  // namespace torch_distinput
