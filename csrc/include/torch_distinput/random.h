// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <ATen/core/Generator.h>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// The random generator (CPU) of the row that a callable of a pipeline (`map`, `filter`, `flat_map`,
/// `interleave`) runs for on this thread; after `batch` a row is a whole batch. Its seed is a pure function
/// of base seed, epoch, op and the row's number, so any number of threads and processes draws the same
/// numbers. All calls for one row return the same generator. Throws FailedPreconditionError outside of such a
/// callable.
TDI_API at::Generator random();

/// Tells `random` which rows a function is being applied to on this thread. Ops open one around
/// `Function::apply`; a `Function` that takes rows one by one calls `enter` for each. Scopes nest. Use it on
/// the thread that made it.
class TDI_API RowScope {
 public:
  /// Row i of the call has the number `numbers[i]`; `numbers` must outlive the scope. `key` is the op's own
  /// in this epoch (`IterContext::rows_key`). Begins with row 0.
  RowScope(std::uint64_t key, std::span<const std::int64_t> numbers) noexcept;
  ~RowScope();
  RowScope(const RowScope&) = delete;
  RowScope& operator=(const RowScope&) = delete;

  /// Moves the innermost scope of this thread, if any, to row `index`.
  static void enter(std::size_t index) noexcept;
  /// The number of the row that the function runs for; nullopt where there are several and it called no
  /// `enter`.
  std::optional<std::int64_t> number() const noexcept;
  /// The number of the current row. REQUIRES: a scope is open on this thread.
  static std::int64_t current_number() noexcept;

 private:
  friend at::Generator random();
  std::uint64_t key_;
  std::span<const std::int64_t> numbers_;
  std::size_t index_ = 0;
  bool entered_ = false;
  std::optional<at::Generator> generator_;
  RowScope* outer_;
};

}  // namespace torch_distinput
