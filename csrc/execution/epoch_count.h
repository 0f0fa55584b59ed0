// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

namespace torch_distinput {

/// Counts the epochs of a dataset handle and its copies, and keeps their seed. Safe from any thread.
class EpochCount {
 public:
  /// The epoch of a new iterator: the next one if an iterator of the current one has handed anything out.
  std::int64_t begin();
  /// What `begin` would return.
  std::int64_t peek();
  /// Notes that an iterator of `epoch` has handed something out.
  void mark_used(std::int64_t epoch);
  /// Makes `epoch` the epoch of the next iterator.
  void pin(std::int64_t epoch);
  /// Notes that an iterator was restored: its epoch becomes the current one, its seed that of later
  /// iterators. `used`: the restored iterator had handed something out.
  void adopt(std::int64_t epoch, bool used, std::uint64_t seed);
  /// The seed of iterators that are given none; drawn at the first call.
  std::uint64_t seed();

 private:
  std::mutex mutex_;
  std::int64_t epoch_ = 0;
  bool used_ = false;
  std::optional<std::uint64_t> seed_;
};

}  // namespace torch_distinput
