// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/iterator_shell.h"

#include <string>
#include <utility>

#include "base/counters.h"
#include "base/fork_count.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/error.h"

namespace torch_distinput {

IteratorShell::IteratorShell(const char* name, std::shared_ptr<ExecutionContext> execution,
                             std::shared_ptr<EpochCount> epochs)
    : name_(name),
      execution_(std::move(execution)),
      epochs_(std::move(epochs)),
      allocations_before_(execution_->pool->stats().allocations),
      fork_count_(fork_count()) {}

bool IteratorShell::inherited() const noexcept { return fork_count_ != fork_count(); }

void IteratorShell::check_usable() const {
  if (closed_) throw FailedPreconditionError(std::string(name_) + ": the iterator is closed.");
  if (inherited()) {
    throw FailedPreconditionError(
        std::string(name_) +
        ": the iterator was made before this process forked; make a new one in the child.");
  }
}

void IteratorShell::rethrow_error() const {
  if (error_) std::rethrow_exception(error_);
}

void IteratorShell::count(std::int64_t epoch, std::int64_t rows, std::int64_t bytes) {
  Counters& counters = *execution_->counters;
  counters.batches.add();
  counters.rows.add(rows);
  counters.bytes.add(bytes);
  if (!std::exchange(used_, true) && epochs_) epochs_->mark_used(epoch);
}

void IteratorShell::adopt_epoch(std::int64_t epoch, std::uint64_t seed) {
  if (epochs_) epochs_->adopt(epoch, used_, seed);
}

Stats IteratorShell::stats() const {
  Stats stats = execution_->counters->stats();
  stats.allocations = execution_->pool->stats().allocations - allocations_before_;
  return stats;
}

}  // namespace torch_distinput
