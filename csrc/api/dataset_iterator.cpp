// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/dataset_iterator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

#include "core/interrupt_watch.h"
#include "core/state_reader.h"
#include "device/transfer/page_locked.h"
#include "execution/changed_weights.h"
#include "execution/identity.h"
#include "execution/plan_iterator.h"
#include "execution/sampled.h"
#include "execution/yields_batches.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

constexpr const char* kSetWeights = "DatasetIterator.set_weights";
constexpr const char* kExclude = "DatasetIterator.exclude";
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
      read_(run_.node),
      shell_("DatasetIterator", execution_context_for(run_), std::move(epochs)),
      batched_(yields_batches(*run_.node)) {
  open();
}

void DatasetIterator::Impl::open() {
  iterator_ = open_input(read_, epoch_context(shell_.execution(), run_.seed, run_.epoch, run_.stream_only));
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
  State state = state_with(suspect_ ? checkpoint_.position : iterator_.iterator->save());
  state.set("used", shell_.used());
  state.set("elements_since", suspect_ ? checkpoint_.elements_since : 0);
  return state;
}

/// The fields of a state at `position` that do not depend on what was handed out.
State DatasetIterator::Impl::state_with(const State& position) const {
  State state = position_header(kKind, run_.node);
  state.set("epoch", run_.epoch);
  state.set("seed", State::key(run_.seed));
  state.set("position", position);
  if (!changed_weights_.empty()) state.set(kChangedWeights, state_of(changed_weights_));
  if (!excluded_.empty()) state.set(kExcludedRows, state_of(excluded_));
  return state;
}

/// The plan of the epoch. REQUIRES: there is one.
PlanPtr DatasetIterator::Impl::plan() const {
  return read_->plan(epoch_context(shell_.execution(), run_.seed, run_.epoch, run_.stream_only));
}

/// The element that is handed out next. Throws c10::ValueError naming `call` on the sequential path.
std::int64_t DatasetIterator::Impl::next_element(const char* call) const {
  TORCH_CHECK_VALUE(iterator_.runs_plan, call, ": the pipeline must have random access (see `explain`).");
  return save().at("position").at("position").as_int();
}

State DatasetIterator::Impl::state_at(std::int64_t element) const {
  constexpr const char* kCall = "DatasetIterator.state_at";
  next_element(kCall);
  const PlanPtr elements = plan();
  TORCH_CHECK_INDEX(element >= 0 && element <= elements->size(), kCall,
                    ": `element` must be at least 0 and at "
                    "most ",
                    elements->size(), ", the number of elements, but is ", element, ".");
  State position = iterator_.iterator->save();
  position.set("position", element);
  if (position.has("row")) position.set("row", elements->rows_before(element));
  const IteratorPtr there = make_plan_iterator(elements, shell_.execution());
  there->load(position);
  State state = state_with(there->save());
  state.set("used", element > 0);
  state.set("elements_since", 0);
  return state;
}

/// The elements of the mixture before element `element` of the epoch; unset: before the next one.
std::int64_t DatasetIterator::Impl::drawn_before(std::optional<std::int64_t> element) const {
  const State position = save().at("position");
  const std::int64_t next = iterator_.runs_plan ? position.at("position").as_int() : 0;
  TORCH_CHECK_VALUE(
      iterator_.runs_plan || !element, kSetWeights,
      ": of a stream, only the next element can be the first with other weights; pass no number.");
  TORCH_CHECK_VALUE(element.value_or(next) >= next, kSetWeights, ": `element` must be at least ", next,
                    ", the next one, but is ", element.value_or(next), ".");
  std::vector<std::int64_t> sampled = sampled_in(position);
  if (iterator_.runs_plan) {
    const PlanPtr elements = plan();
    sampled = elements->sampled(std::min(element.value_or(next), elements->size()));
    TORCH_CHECK_VALUE(!sampled.empty(), kSetWeights,
                      ": what was mixed is not known, because the mixture is shuffled as a whole.");
  }
  return std::accumulate(sampled.begin(), sampled.end(), std::int64_t{0});
}

void DatasetIterator::Impl::set_weights(std::vector<double> weights, std::optional<std::int64_t> element) {
  shell_.check_usable();
  check_weights(kSetWeights, weights, mixture_of(*read_, iterator_.runs_plan, kSetWeights).inputs().size());
  State state = save();
  state.set(kChangedWeights,
            state_of(with_change(changed_weights_, drawn_before(element), std::move(weights))));
  load(state);
}

void DatasetIterator::Impl::exclude(std::vector<std::int64_t> rows) {
  shell_.check_usable();
  const std::int64_t next = next_element(kExclude);
  check_excluded(kExclude, rows, plan()->num_source_rows());
  const std::vector<ExcludedRows> excluded =
      with_exclusion(excluded_, {run_.epoch, batched_before(*run_.node, next, 0), std::move(rows)});
  without_rows(run_.node, excluded, run_.epoch, kExclude);
  State state = save();
  state.set(kExcludedRows, state_of(excluded));
  load(state);
}

std::optional<std::int64_t> DatasetIterator::Impl::remote_elements_left() const {
  shell_.check_usable();
  if (!iterator_.runs_plan) return std::nullopt;
  const Plan& elements = plan_of(*iterator_.iterator);
  if (!elements.traits().remote || elements.size() == kEndless) return std::nullopt;
  return elements.size() - next_element("DatasetIterator.remote_elements_left");
}

void DatasetIterator::Impl::begin_reading() {
  shell_.check_usable();
  const WorkScope work(shell_.execution()->counters);
  if (iterator_.runs_plan) torch_distinput::begin_reading(*iterator_.iterator);
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
  excluded_ = excluded_rows_in(state, "state");
  read_ = without_rows(run_.node, excluded_, epoch, "state");
  changed_weights_ = changed_weights_in(state, *read_, "state");
  ChangedWeights& changed = shell_.execution()->changed_weights;
  changed = {};
  if (!changed_weights_.empty())
    changed = {&mixture_of(*read_, iterator_.runs_plan, "state"), changed_weights_};
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
void DatasetIterator::set_weights(std::vector<double> weights, std::optional<std::int64_t> element) {
  impl_->set_weights(std::move(weights), element);
}
void DatasetIterator::exclude(std::vector<std::int64_t> rows) { impl_->exclude(std::move(rows)); }
State DatasetIterator::state_at(std::int64_t element) const { return impl_->state_at(element); }
std::optional<std::int64_t> DatasetIterator::remote_elements_left() const {
  return impl_->remote_elements_left();
}
void DatasetIterator::begin_reading() { impl_->begin_reading(); }
Stats DatasetIterator::stats() const {
  Stats stats = impl_->stats();
  stats.sampled = sampled_in(impl_->save());
  return stats;
}
std::int64_t DatasetIterator::epoch() const { return impl_->epoch(); }
void DatasetIterator::close(std::chrono::milliseconds timeout) { impl_->close(timeout); }

}  // namespace torch_distinput
