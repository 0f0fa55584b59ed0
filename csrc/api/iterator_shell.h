// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include "execution/epoch_count.h"
#include "execution/execution_context.h"
#include "torch_distinput/stats.h"

namespace torch_distinput {

/// What the iterators that users hold do alike: they serve the process that made them until they are closed,
/// raise an error again at each call, count what they hand out, and take part in the dataset's count of
/// epochs.
class IteratorShell {
 public:
  /// `name`: of the class, for messages. `epochs` may be null.
  IteratorShell(const char* name, std::shared_ptr<ExecutionContext> execution,
                std::shared_ptr<EpochCount> epochs);

  const std::shared_ptr<ExecutionContext>& execution() const noexcept { return execution_; }

  /// Whether this is a forked child of the process that made the iterator.
  bool inherited() const noexcept;
  /// Throws FailedPreconditionError in a forked child and after `close`.
  void check_usable() const;
  void close() noexcept { closed_ = true; }
  bool closed() const noexcept { return closed_; }

  /// Throws what `keep_error` kept.
  void rethrow_error() const;
  /// Keeps the exception that is being handled.
  void keep_error() noexcept { error_ = std::current_exception(); }
  const std::exception_ptr& error() const noexcept { return error_; }
  void forget_error() noexcept { error_ = nullptr; }

  /// Counts something handed out in `epoch`.
  void count(std::int64_t epoch, std::int64_t rows, std::int64_t bytes);
  /// Whether something was handed out in the epoch.
  bool used() const noexcept { return used_; }
  void set_used(bool used) noexcept { used_ = used; }
  /// The epoch, and the seed of later ones, came from a state or from another process.
  void adopt_epoch(std::int64_t epoch, std::uint64_t seed);

  Stats stats() const;

 private:
  const char* name_;
  std::shared_ptr<ExecutionContext> execution_;
  std::shared_ptr<EpochCount> epochs_;
  std::exception_ptr error_;
  bool used_ = false;
  bool closed_ = false;
  std::int64_t allocations_before_;
  int fork_count_;
};

}  // namespace torch_distinput
