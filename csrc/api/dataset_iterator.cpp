// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/dataset_iterator.h"

#include <utility>

#include <c10/util/Exception.h>

#include "core/interrupt_watch.h"
#include "core/state_reader.h"
#include "device/transfer/page_locked.h"
#include "execution/identity.h"
#include "execution/sampled.h"
#include "execution/yields_batches.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

constexpr PositionKind kKind{"torch_distinput.DatasetIterator", /*version=*/1};
/// Saving a checkpoint costs microseconds, so it is not done for every element: after an error, at most this
/// much work is done again.
constexpr std::chrono::microseconds kCheckpointInterval{100};
constexpr std::int64_t kMaxSince = 4096;

std::shared_ptr<ExecutionContext> execution_context_for(const EpochRun& run) {
  auto execution = make_execution_context(run.node->options());
  if (run.pin_memory) execution->pool = pinned_pool();
  return execution;
}

}  // namespace

DatasetIterator::Impl::Impl(EpochRun run, std::shared_ptr<EpochCount> epochs)
    : run_(std::move(run)),
      shell_("DatasetIterator", execution_context_for(run_), std::move(epochs)),
      batched_(yields_batches(*run_.node)) {
  open();
}

void DatasetIterator::Impl::open() {
  iterator_ =
      open_input(run_.node, epoch_context(shell_.execution(), run_.seed, run_.epoch, run_.stream_only));
  checkpoint_ = {};
  if (!iterator_.runs_plan) checkpoint_.position = iterator_.iterator->save();
  suspect_ = false;
  shell_.forget_error();
}

std::optional<Element> DatasetIterator::Impl::next() {
  shell_.check_usable();
  shell_.rethrow_error();
  NextScope next(shell_);
  std::optional<Element> element = iterator_.runs_plan ? iterator_.iterator->next() : next_of_stream();
  if (!element) return element;
  shell_.count(run_.epoch, batched_ ? element->rows().value_or(1) : 1, element->bytes());
  next.succeed();
  return element;
}

std::optional<Element> DatasetIterator::Impl::next_of_stream() {
  const InterruptWatch watch;
  try {
    if (suspect_) recover();
    std::optional<Element> element = iterator_.iterator->next();
    if (!element) return element;
    ++checkpoint_.elements_since;
    const auto now = std::chrono::steady_clock::now();
    const bool due = now - checkpoint_.time >= kCheckpointInterval || checkpoint_.elements_since == kMaxSince;
    if (due) checkpoint_ = {iterator_.iterator->save(), 0, now};
    return element;
  } catch (...) {
    suspect_ = true;
    if (!watch.interrupt()) shell_.keep_error();
    throw;
  }
}

/// Moves the iterator back to the position that the user has reached.
void DatasetIterator::Impl::recover() {
  iterator_.iterator->load(checkpoint_.position);
  for (std::int64_t i = 0; i < checkpoint_.elements_since; ++i) {
    TORCH_CHECK_VALUE(iterator_.iterator->next(), "state: the saved `elements_since` is ",
                      checkpoint_.elements_since, ", but only ", i, " elements follow the position.");
  }
  suspect_ = false;
}

State DatasetIterator::Impl::save() const {
  if (shell_.closed()) return closed_at_;
  State state = position_header(kKind, run_.node);
  state.set("epoch", run_.epoch);
  state.set("seed", State::key(run_.seed));
  state.set("used", shell_.used());
  state.set("position", suspect_ ? checkpoint_.position : iterator_.iterator->save());
  state.set("elements_since", suspect_ ? checkpoint_.elements_since : 0);
  return state;
}

void DatasetIterator::Impl::load(const State& state) {
  shell_.check_usable();
  const WorkScope work(shell_.execution()->counters);
  check_header(state, kKind, run_.node, "state");
  const StateReader saved(state, "state");
  const State& position = saved.at("position");
  const bool from_plan = position.has("path");
  TORCH_CHECK_VALUE(from_plan == iterator_.runs_plan, "state: saved on the ",
                    from_plan ? "random-access" : "sequential", " path, but this iterator runs on the ",
                    iterator_.runs_plan ? "random-access" : "sequential",
                    " path; set the options, such as on_error, that were set when it was saved.");
  const std::int64_t epoch = saved.count("epoch", kMaxEpochs);
  const auto seed = static_cast<std::uint64_t>(saved.integer("seed"));
  const bool used = saved.flag("used");
  const std::int64_t elements_since = saved.count("elements_since", iterator_.runs_plan ? 0 : kMaxSince);
  run_.epoch = epoch;
  run_.seed = seed;
  shell_.set_used(used);
  open();
  checkpoint_ = {position, elements_since, {}};
  suspect_ = true;
  const InterruptWatch watch;
  try {
    recover();
  } catch (...) {
    if (!watch.interrupt()) shell_.keep_error();
    throw;
  }
  shell_.adopt_epoch(run_.epoch, run_.seed);
}

void DatasetIterator::Impl::close(std::chrono::milliseconds timeout) {
  if (shell_.closed()) return;
  closed_at_ = save();
  shell_.close();
  const bool calls_code = calls_user_code(*run_.node);
  shell_.end_work<Iterator>({std::exchange(iterator_.iterator, nullptr), run_.node, calls_code}, timeout);
}

DatasetIterator::DatasetIterator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DatasetIterator::~DatasetIterator() = default;
DatasetIterator::DatasetIterator(DatasetIterator&&) noexcept = default;
DatasetIterator& DatasetIterator::operator=(DatasetIterator&&) noexcept = default;

std::optional<Element> DatasetIterator::next() { return impl_->next(); }
State DatasetIterator::save() const { return impl_->save(); }
void DatasetIterator::load(const State& state) { impl_->load(state); }
Stats DatasetIterator::stats() const {
  Stats stats = impl_->stats();
  stats.sampled = sampled_in(impl_->save());
  return stats;
}
std::int64_t DatasetIterator::epoch() const { return impl_->epoch(); }
void DatasetIterator::close(std::chrono::milliseconds timeout) { impl_->close(timeout); }

}  // namespace torch_distinput
