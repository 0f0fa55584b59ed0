// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

namespace torch_distinput {

/// The epochs of one dataset handle and its copies, and its seed. Any thread may call.
class EpochCount {
 public:
  /// The epoch of a new iterator: the next one if an iterator of the current one handed anything out.
  std::int64_t begin();
  /// What `begin` would return.
  std::int64_t peek();
  /// An iterator of `epoch` handed something out.
  void mark_used(std::int64_t epoch);
  /// The next iterator runs `epoch`.
  void pin(std::int64_t epoch);
  /// An iterator was restored: its epoch is the current one, its seed that of later iterators.
  void adopt(std::int64_t epoch, bool used, std::uint64_t seed);
  /// The seed of iterators that are given none, drawn at the first call.
  std::uint64_t seed();

 private:
  std::mutex mutex_;
  std::int64_t epoch_ = 0;
  bool used_ = false;
  std::optional<std::uint64_t> seed_;
};

}  // namespace torch_distinput
