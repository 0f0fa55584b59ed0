// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/iterator_shell.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/counters.h"
#include "device/transfer/nvtx_ranges.h"
#include "execution/any_op.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/error.h"

namespace torch_distinput {

IteratorShell::IteratorShell(const char* name, std::shared_ptr<ExecutionContext> execution,
                             std::shared_ptr<EpochCount> epochs)
    : name_(name),
      execution_(std::move(execution)),
      epochs_(std::move(epochs)),
      allocations_before_(execution_->pool->stats().allocations) {
  show_stages_to_nvtx();
}

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
  stats.wait_ns = wait_ns_;
  stats.consumer_ns = consumer_ns_;
  stats.wait_histogram = wait_histogram_;
  const auto meanwhile = [this](Stage stage) { return meanwhile_ns_[static_cast<std::size_t>(stage)]; };
  stats.waited_read_ns = meanwhile(Stage::kRead);
  stats.waited_build_ns = meanwhile(Stage::kBuild) + meanwhile(Stage::kNext);
  stats.waited_python_ns = meanwhile(Stage::kPython);
  stats.waited_copy_ns = meanwhile(Stage::kCopy);
  if (!inherited()) stats.network = network_.stats(*execution_->counters);
  return stats;
}

bool calls_user_code(const Node& node) {
  return any_op(node, [](const Node& op) { return !op.user_code().empty(); });
}

NextScope::NextScope(IteratorShell& shell) noexcept
    : shell_(shell), work_(shell.execution_->counters), stage_(Stage::kNext) {
  const Counters& counters = *shell_.execution_->counters;
  for (std::size_t stage = 0; stage < kStages; ++stage)
    busy_before_[stage] = counters.busy[stage].read(stage_.began());
  if (shell_.returned_at_ != 0) shell_.consumer_ns_ += stage_.began() - shell_.returned_at_;
}

NextScope::~NextScope() {
  const std::int64_t began = stage_.began();
  const std::int64_t time = stage_.end();
  shell_.returned_at_ = began + time;
  const Counters& counters = *shell_.execution_->counters;
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    shell_.meanwhile_ns_[stage] +=
        BusyTime::between(busy_before_[stage], counters.busy[stage].read(shell_.returned_at_));
  }
  shell_.wait_ns_ += time;
  if (!succeeded_) return;
  const auto bin = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(time) / 1000));
  ++shell_.wait_histogram_[std::min(bin, Stats::kWaitBins - 1)];
}

}  // namespace torch_distinput
