// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

namespace torch_distinput {

/// The number of rows in a dataset's files, counted when it is first asked for and kept. Safe from any
/// thread.
class FileRowCount {
 public:
  /// Opens the files and returns their rows, or kUnknownCardinality. Throws where a file cannot be used.
  using Count = std::function<std::int64_t()>;

  /// The number; kUnknownCardinality where it is not known, or `count` throws. A failure is kept, because
  /// each op above the source asks, and the intact files would be opened each time. Throws an interrupt,
  /// which is not a failure.
  std::int64_t get(const Count& count) const;

  /// Throws what `count` throws, if it has failed before and does so again.
  void check(const Count& count) const;

 private:
  std::int64_t count_now(const Count& count) const;

  mutable std::mutex mutex_;
  mutable std::optional<std::int64_t> known_;
  mutable bool failed_ = false;
};

}  // namespace torch_distinput
