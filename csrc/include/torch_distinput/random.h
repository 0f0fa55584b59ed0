// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// The random generator of the row that a callable of a pipeline (`map`, `filter`,
/// `flat_map`, `interleave`) runs for on this thread; after `batch` a row is a whole
/// batch. A pure function of seed, epoch, op and the row's number, so any number of
/// threads and processes draws the same; the same generator until the callable is done
/// with the row. Throws FailedPreconditionError outside of such a callable.
TDI_API at::Generator random();

/// Says on this thread which rows a function is being applied to, for `random`. Ops
/// open one around `Function::apply`; a `Function` that takes rows one by one calls
/// `enter` for each. Scopes nest.
class TDI_API RowScope {
 public:
  /// Row i of those applied has the number `numbers[i]`, which must stay alive. `key`
  /// is the op's own in this epoch. Begins with row 0.
  RowScope(std::uint64_t key, std::span<const std::int64_t> numbers) noexcept;
  ~RowScope();
  RowScope(const RowScope&) = delete;
  RowScope& operator=(const RowScope&) = delete;

  /// The innermost scope of this thread, if any, goes on with row `index`.
  static void enter(std::size_t index) noexcept;

 private:
  friend at::Generator random();
  std::uint64_t key_;
  std::span<const std::int64_t> numbers_;
  std::size_t index_ = 0;
  std::optional<at::Generator> generator_;
  RowScope* outer_;
};

}  // namespace torch_distinput
