// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include "api/network_watch.h"
#include "base/fork_guard.h"
#include "base/stage.h"
#include "execution/epoch_count.h"
#include "execution/execution_context.h"
#include "runtime/worker_thread.h"
#include "torch_distinput/node.h"
#include "torch_distinput/stats.h"

namespace torch_distinput {

/// What all iterators that users hold have in common: they serve the process that made them until they are
/// closed, raise an error again at each call, count what they hand out, and take part in the dataset's count
/// of epochs.
class IteratorShell {
 public:
  /// `name`: of the class, for messages. `epochs` may be null.
  IteratorShell(const char* name, std::shared_ptr<ExecutionContext> execution,
                std::shared_ptr<EpochCount> epochs);

  const std::shared_ptr<ExecutionContext>& execution() const noexcept { return execution_; }

  /// Whether this is a forked child of the process that made the iterator.
  bool inherited() const noexcept { return fork_guard_.inherited(); }
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

  /// What an iterator hands out comes from here.
  template <class Source>
  struct Work {
    std::unique_ptr<Source> source;
    std::shared_ptr<const void> pipeline;  ///< outlives the source
    bool calls_user_code;
  };
  /// Destroys the source, which ends its read-ahead and its processes. Where users' code may run in it, waits
  /// for at most `timeout`; if that is not enough, another thread finishes later.
  template <class Source>
  void end_work(Work<Source> work, std::chrono::milliseconds timeout) const {
    if (!work.calls_user_code || inherited()) return;
    const auto shared = std::make_shared<Work<Source>>(std::move(work));
    // The execution context has the memory and the counters of the source.
    const auto end = [shared, execution = execution_] {
      shared->source.reset();
      execution->processes->end();
    };
    if (timeout == std::chrono::milliseconds::max()) return end();
    run_apart("tdi-close", end, timeout);
  }

 private:
  friend class NextScope;

  const char* name_;
  std::shared_ptr<ExecutionContext> execution_;
  std::shared_ptr<EpochCount> epochs_;
  std::exception_ptr error_;
  bool used_ = false;
  bool closed_ = false;
  std::int64_t allocations_before_;
  NetworkWatch network_;
  // The consumer's time, in ns.
  std::int64_t returned_at_ = 0;  ///< when the last call of `next` ended
  std::int64_t wait_ns_ = 0;
  std::int64_t consumer_ns_ = 0;
  std::array<std::int64_t, kStages> meanwhile_ns_{};  ///< of all threads within `wait_ns_`
  std::array<std::int64_t, Stats::kWaitBins> wait_histogram_{};
  ForkGuard fork_guard_;
};

/// Whether an op of the pipeline up to `node` calls users' code, also code that should not block.
bool calls_user_code(const Node& node);

/// One call of `next`: this thread works for the iterator meanwhile, and the time of the call counts as the
/// consumer's wait. Calls that fail or reach the end are not recorded in the histogram.
class NextScope {
 public:
  explicit NextScope(IteratorShell& shell) noexcept;
  ~NextScope();
  NextScope(const NextScope&) = delete;
  NextScope& operator=(const NextScope&) = delete;

  /// Marks that the call returns something.
  void succeed() noexcept { succeeded_ = true; }

 private:
  IteratorShell& shell_;
  WorkScope work_;
  StageScope stage_;
  std::array<std::uint64_t, kStages> busy_before_;
  bool succeeded_ = false;
};

}  // namespace torch_distinput
