// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/distributed_iterator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

#include "base/counters.h"
#include "base/stage.h"
#include "distribute/checkpoint/stream_positions.h"
#include "distribute/coordination/content_probe.h"
#include "distribute/coordination/report_failure.h"
#include "distribute/coordination/synchronized_source.h"
#include "distribute/steps/built_step.h"
#include "distribute/steps/device_placement.h"
#include "distribute/steps/open_step_source.h"
#include "distribute/steps/rowless_source.h"
#include "execution/any_op.h"
#include "execution/changed_weights.h"
#include "execution/excluded_rows.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/sampled.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/error.h"

namespace torch_distinput {

namespace {

constexpr const char* kSetWeightsCall = "DistributedIterator.set_weights";
constexpr const char* kExcludeCall = "DistributedIterator.exclude";

std::shared_ptr<ExecutionContext> make_execution_context_for(const Distribution& distribution) {
  auto execution = make_execution_context(distribution.options);
  execution->pool = batch_pool(distribution);
  return execution;
}

bool calls_user_code(const Distribution& distribution) {
  const auto& pipelines = distribution.pipelines;
  return torch_distinput::calls_user_code(*distribution.assignment.node) ||
         std::any_of(pipelines.begin(), pipelines.end(),
                     [](const DistributionPtr& pipeline) { return calls_user_code(*pipeline); });
}

}  // namespace

DistributedIterator::Impl::Impl(DistributionPtr distribution, std::shared_ptr<EpochCount> epochs,
                                EpochPosition at, bool stream_only, bool with_rows,
                                std::unique_ptr<PeerLink> link, bool seed_given,
                                std::vector<Handshake::Fact> facts)
    : given_(std::move(distribution)),
      distribution_(given_),
      at_(std::move(at)),
      stream_only_(stream_only),
      with_rows_(with_rows),
      link_(std::move(link)),
      facts_(std::move(facts)),
      users_seed_(seed_given),
      seed_given_(seed_given),
      shell_("DistributedIterator", make_execution_context_for(*distribution_), std::move(epochs)) {
  at_.seed_agreed = seed_given_ || !link_;
}

DistributedIterator::Impl::~Impl() { leave_peers(); }

/// Tells the peers that no step follows here. At the end of the data no peer expects one.
void DistributedIterator::Impl::leave_peers() noexcept {
  if (!link_ || shell_.inherited()) return;
  // A step that `next` refused ends the loop on every rank.
  if (ahead_) link_->end();
  link_->leave(at_.start.position.step);
}

std::optional<PerReplica> DistributedIterator::Impl::take(bool only_complete) {
  shell_.check_usable();
  shell_.rethrow_error();
  if (ended_) return std::nullopt;
  NextScope next(shell_);
  if (interrupted_) stop();
  const InterruptWatch watch;
  BuiltStep* step = nullptr;
  work_with_peers(watch, [&] {
    step = peek();
    if (link_ && hands_out(step, only_complete)) link_->check_together(at_.start.position.step);
  });
  if (watch.interrupt()) {
    // A pipeline that does not survive an interrupt is in an unknown state. It is opened again at this
    // iterator's position, but not now, because stopping it waits for functions that are running.
    interrupted_ = !source_ || !source_->survives_interrupt();
    std::rethrow_exception(watch.interrupt());
  }
  ended_ = step == nullptr;
  if (ended_ && link_) link_->end();
  if (!hands_out(step, only_complete)) return std::nullopt;
  PerReplica values = hand_out(refuses_incomplete(only_complete));
  next.succeed();
  return values;
}

void DistributedIterator::Impl::follow(const std::optional<StepInfo>& info, const State& after) {
  shell_.check_usable();
  shell_.rethrow_error();
  TORCH_CHECK_VALUE(given_->pipelines.empty() && (!link_ || (given_->one_stream() && !given_->skips())),
                    "DistributedIterator.follow: the processes must take the same steps by arithmetic, of "
                    "one stream in which no row is skipped.");
  NextScope next(shell_);
  const InterruptWatch watch;
  work_with_peers(watch, [&] {
    if (link_ && info) link_->check_together(at_.start.position.step);
  });
  if (watch.interrupt()) std::rethrow_exception(watch.interrupt());
  at_.start = load_position(given_, after).at.start;
  ended_ = !info;
  if (ended_ && link_) link_->end();
  if (ended_) return;
  if (link_) link_->took(info->step);
  shell_.count(at_.epoch, std::accumulate(info->valid.begin(), info->valid.end(), std::int64_t{0}), 0);
  info_ = info;
  next.succeed();
}

/// Opens the iterator with the peers and does `work`. They learn of a failure; `watch` knows of an interrupt.
template <class Work>
void DistributedIterator::Impl::work_with_peers(const InterruptWatch& watch, const Work& work) {
  try {
    if (link_) open_with_peers();
    work();
  } catch (const PeerError&) {
    shell_.keep_error();
    link_->end();
    throw;
  } catch (...) {
    if (!watch.interrupt()) {
      shell_.keep_error();
      if (link_) link_->fail(at_.start.position.step, shell_.error());
      throw;
    }
  }
}

/// As recorded from tf.distribute: where partial batches are not handled, `next` ends at the first step that
/// lacks a part.
bool DistributedIterator::Impl::refuses_incomplete(bool only_complete) const {
  return only_complete && !distribution_->completes;
}

bool DistributedIterator::Impl::hands_out(const BuiltStep* step, bool only_complete) const {
  return step != nullptr && (step->complete || !refuses_incomplete(only_complete));
}

void DistributedIterator::Impl::open_with_peers() {
  if (link_->open()) {
    // Steps that an agreement released are handed out before a failure that came after them is thrown.
    if (!agrees_) link_->check_alive();
    return;
  }
  const Handshake mine = report_failure_to_peers(
      *link_, [this] { return describe_handshake(*distribution_, at_, seed_given_, facts_, with_rows_); });
  const std::int64_t began = clock_ns();
  const HandshakeSummary all = [&] {
    const StageScope waits(Stage::kWait);
    return link_->agree(mine);
  }();
  probe_.reset();
  shell_.execution()->counters->peer_ns.add(clock_ns() - began);
  rows_before_ = distribution_->one_stream() ? at_.start.position.row : all.rows();
  learn_spec(all.spec());
  at_.seed_agreed = true;
  if (seed_given_) return;
  at_.seed = all.drawn_seed();
  shell_.adopt_epoch(at_.epoch, at_.seed);
}

/// A rank without rows cannot see the type of its elements; it learns the type of its empty parts from the
/// others.
void DistributedIterator::Impl::learn_spec(const SpecSummary& all) {
  auto completed = std::make_shared<Distribution>(*distribution_);
  completed->spec = all.complete(completed->spec);
  distribution_ = std::move(completed);
}

/// What the epoch's plans and iterators are made with.
IterContext DistributedIterator::Impl::context_of(const Distribution& distribution) const {
  return distribution.assignment.context_of_stream(
      epoch_context(shell_.execution(), at_.seed, at_.epoch, stream_only_));
}

/// As `context_of`, for a source of steps with rows, and what that needs beside it.
IterContext DistributedIterator::Impl::context_of_steps() {
  if (!transfer_) transfer_ = open_device_transfer(*given_);
  const std::shared_ptr<ExecutionContext>& execution = shell_.execution();
  execution->one_order = link_ && distribution_->one_stream();
  execution->left_to_devices.clear();
  for (const auto& left : left_to_devices(*distribution_)) execution->left_to_devices.push_back(left->node);
  return context_of(*distribution_);
}

std::unique_ptr<StepSource> DistributedIterator::Impl::make_step_source() {
  if (!with_rows_)
    return open_rowless_source(
        distribution_, rows_without_reading(*distribution_, context_of(*distribution_)), at_.start.position);
  const IterContext context = context_of_steps();
  agrees_ = link_ && !keeps_together(context);
  if (!agrees_) return open_step_source(distribution_, context, at_.start, transfer_);
  return open_synchronized_source(distribution_, context, at_.start, transfer_, link_->rounds(),
                                  *shell_.execution()->counters, rows_before_);
}

void DistributedIterator::Impl::begin_reading(std::uint64_t seed) {
  shell_.check_usable();
  // A rank that does not know the type of its elements learns it from its peers.
  if (source_ || ended_ || !with_rows_ || !distribution_->spec) return;
  const WorkScope work(shell_.execution()->counters);
  const std::uint64_t own_seed = std::exchange(at_.seed, seed);
  const IterContext context = context_of_steps();
  at_.seed = own_seed;
  if (link_ && !keeps_together(context)) return;
  source_ = open_early(distribution_, context, at_.start, transfer_);
  if (!source_) return;
  early_ = seed;
  if (!link_) return;
  const AheadClaim::Scope asks(probe_.emplace());
  announce_content_probe(distribution_->node);
}

/// Whether ranks take the same steps without communication: they split one stream, and no rank can skip rows
/// of it that others do not skip.
bool DistributedIterator::Impl::keeps_together(const IterContext& context) const {
  if (!distribution_->one_stream()) return false;
  return !distribution_->skips() || plan_rows(*distribution_, context) != nullptr;
}

/// The next step, built and not handed out yet; null at the end. Valid until `hand_out` or `stop`.
BuiltStep* DistributedIterator::Impl::peek() {
  if (!ahead_) {
    if (std::exchange(early_, {}).value_or(at_.seed) != at_.seed) stop();
    if (!source_) source_ = make_step_source();
    ahead_ = source_->next();
  }
  return ahead_ ? &*ahead_ : nullptr;
}

PerReplica DistributedIterator::Impl::hand_out(bool only_complete) {
  const bool is_last = only_complete ? ahead_->last_complete : ahead_->last;
  PerReplica values = deliver(transfer_, *ahead_, at_.epoch, is_last);
  at_.start = std::move(ahead_->after);
  ahead_.reset();
  if (link_) link_->took(values.info().step);
  count(values);
  info_ = values.info();
  return values;
}

void DistributedIterator::Impl::count(const PerReplica& values) {
  const std::vector<std::int64_t>& valid = values.info().valid;
  std::int64_t bytes = 0;
  for (const Element& part : values) bytes += part.bytes();
  shell_.count(at_.epoch, std::accumulate(valid.begin(), valid.end(), std::int64_t{0}), bytes);
}

State DistributedIterator::Impl::state_at(std::int64_t step) const {
  constexpr const char* kCall = "DistributedIterator.state_at";
  const Distribution& read = distribution_->rest ? *given_ : *distribution_;
  const bool shares_stream = given_->pipelines.empty() && (!link_ || given_->one_stream());
  const auto rows = shares_stream ? plan_rows(read, context_of(read)) : nullptr;
  const auto steps = rows ? count_steps(read.rules(), *rows, /*only_complete=*/false) : std::nullopt;
  TORCH_CHECK_VALUE(
      steps, kCall,
      ": all replicas must share one stream, which ends, and the rows of its steps must be known "
      "before they are read.");
  if (!at_.seed_agreed) {
    throw FailedPreconditionError(std::string(kCall) +
                                  ": the processes agree on a seed at the first step; set one, or call next "
                                  "first.");
  }
  TORCH_CHECK_INDEX(step >= 0 && step <= *steps, kCall, ": `step` must be at least 0 and at most ", *steps,
                    ", the number of steps, but is ", step, ".");
  EpochPosition at{at_.epoch, at_.seed};
  at.start.position = position_after(read.rules(), *rows, step);
  at.changed_weights = at_.changed_weights;
  at.excluded = at_.excluded;
  return save_position({given_, std::move(at)});
}

/// The elements of the mixture before step `step`.
std::int64_t DistributedIterator::Impl::drawn_before(std::int64_t step) const {
  std::vector<std::int64_t> sampled = sampled_by_plan(step);
  if (sampled.empty() && step == at_.start.position.step) sampled = sampled_in(save());
  const bool has_begun = step > 0;
  TORCH_CHECK_VALUE(
      !sampled.empty() || !has_begun, kSetWeightsCall, ": what is mixed before step ", step,
      " is not known, because the mixture is shuffled as a whole, or is a stream, of which only the "
      "next step can be the first with other weights.");
  return std::accumulate(sampled.begin(), sampled.end(), std::int64_t{0});
}

void DistributedIterator::Impl::set_weights(std::vector<double> weights, std::optional<std::int64_t> step) {
  shell_.check_usable();
  const bool own = !given_->pipelines.empty() || (link_ && !given_->one_stream()) || distribution_->rest;
  TORCH_CHECK_VALUE(!own, kSetWeightsCall,
                    ": all replicas must read one stream, but here replicas or processes read their own.");
  const std::int64_t next = at_.start.position.step;
  TORCH_CHECK_VALUE(step.value_or(next) >= next, kSetWeightsCall, ": `step` must be at least ", next,
                    ", the next one, but is ", step.value_or(next), ".");
  const auto rows = plan_rows(*distribution_, context_of(*distribution_));
  const Node& mixture = mixture_of(*distribution_->assignment.node, rows != nullptr, kSetWeightsCall);
  const auto steps =
      rows ? count_steps(distribution_->rules(), *rows, /*only_complete=*/false) : std::nullopt;
  TORCH_CHECK_VALUE(!steps || step.value_or(0) <= *steps, kSetWeightsCall, ": `step` must be at most ",
                    steps.value_or(0), ", the number of steps, but is ", step.value_or(0), ".");
  const std::int64_t window = distribution_->balance ? distribution_->input.balance_window : 1;
  TORCH_CHECK_VALUE(step.value_or(next) % window == 0, kSetWeightsCall, ": `step` must be a multiple of ",
                    window, ", because rows of that many steps are exchanged (`balance_window`), but is ",
                    step.value_or(next), ".");
  check_weights(kSetWeightsCall, weights, mixture.inputs().size());
  State state = save();
  state.set(kChangedWeights, state_of(with_change(at_.changed_weights, drawn_before(step.value_or(next)),
                                                  std::move(weights))));
  const std::optional<StepInfo> info = info_;
  load(state);
  info_ = info;
}

void DistributedIterator::Impl::exclude(std::vector<std::int64_t> rows) {
  shell_.check_usable();
  const bool own = !given_->pipelines.empty() || !given_->one_stream() || distribution_->rest;
  TORCH_CHECK_VALUE(!own, kExcludeCall,
                    ": all replicas must read one stream, but here replicas or processes read their own.");
  const NodePtr& node = given_->assignment.node;
  const PlanPtr plan = node->plan(context_of(*given_));
  TORCH_CHECK_VALUE(plan != nullptr, kExcludeCall, ": the pipeline must have random access (see `explain`).");
  check_excluded(kExcludeCall, rows, plan->num_source_rows());
  const StepPosition& next = at_.start.position;
  const std::int64_t window = given_->balance ? given_->input.balance_window : 1;
  TORCH_CHECK_VALUE(next.step % window == 0, kExcludeCall, ": the next step must be a multiple of ", window,
                    ", because rows of that many steps are exchanged (`balance_window`), but is ", next.step,
                    ".");
  const std::int64_t position =
      batched_before(*node, next.split.element, next.split.row + next.split.part_rows);
  const std::vector<ExcludedRows> excluded =
      with_exclusion(at_.excluded, {at_.epoch, position, std::move(rows)});
  without_rows(node, excluded, at_.epoch, kExcludeCall);
  State state = save();
  state.set(kExcludedRows, state_of(excluded));
  const std::optional<StepInfo> info = info_;
  load(state);
  info_ = info;
}

void DistributedIterator::Impl::load(const State& state) {
  shell_.check_usable();
  SavedPosition position = load_position(given_, state);
  stop();
  leave_peers();
  shell_.forget_error();
  ended_ = false;
  info_.reset();
  distribution_ = std::move(position.distribution);
  const std::uint64_t drawn = at_.seed;
  at_ = std::move(position.at);
  if (!at_.excluded.empty()) {
    auto left = std::make_shared<Distribution>(*distribution_);
    left->assignment.node = without_rows(left->assignment.node, at_.excluded, at_.epoch, "state");
    distribution_ = std::move(left);
  }
  ChangedWeights& changed = shell_.execution()->changed_weights;
  changed = {};
  if (!at_.changed_weights.empty())
    changed = {&mixture_of(*distribution_->assignment.node, /*runs_plan=*/true, "state"),
               at_.changed_weights};
  if (!at_.seed_agreed) {
    at_.seed = drawn;
    at_.seed_agreed = users_seed_ || !link_;
  }
  shell_.set_used(at_.start.position.step > 0);
  // An iterator that was saved before its first step had not yet agreed on a seed with the other ranks.
  seed_given_ = users_seed_ || shell_.used();
  shell_.adopt_epoch(at_.epoch, at_.seed);
}

Stats DistributedIterator::Impl::stats() const {
  Stats stats = shell_.stats();
  stats.waits += waits();
  if (given_->assignment.streams) {
    stats.sampled = sampled_in_streams(save());
    return stats;
  }
  stats.sampled = sampled_in(save());
  if (stats.sampled.empty()) stats.sampled = sampled_by_plan(at_.start.position.step);
  return stats;
}

/// What is drawn before step `step`, which is none of an earlier one, from each dataset of a mixture that is
/// read by position: such positions have no counts.
std::vector<std::int64_t> DistributedIterator::Impl::sampled_by_plan(std::int64_t step) const {
  const bool own = !distribution_->pipelines.empty();
  const Distribution& read = own ? *distribution_->pipelines.front() : *distribution_;
  if (!any_op(*read.assignment.node, [](const Node& op) { return op.traits().order.mixes; })) return {};
  const auto rows = plan_rows(read, context_of(read));
  if (rows == nullptr) return {};
  const Start start = !own ? at_.start : at_.start.pipelines.empty() ? Start{} : at_.start.pipelines.front();
  const bool is_now = step == at_.start.position.step;
  const SplitPosition split = is_now ? start.position.split : position_after(read.rules(), *rows, step).split;
  const bool in_element = split.row + split.part_rows > 0;
  return rows->plan()->sampled(std::min(split.element + (in_element ? 1 : 0), rows->size()));
}

void DistributedIterator::Impl::close(std::chrono::milliseconds timeout) {
  shell_.end_work<StepSource>({detach_source(), distribution_, calls_user_code(*given_)}, timeout);
  leave_peers();
  shell_.close();
}

void DistributedIterator::Impl::stop() { detach_source().reset(); }

std::unique_ptr<StepSource> DistributedIterator::Impl::detach_source() {
  earlier_waits_ = waits();
  ahead_.reset();
  early_.reset();
  probe_.reset();
  interrupted_ = false;
  return std::move(source_);
}

std::int64_t DistributedIterator::Impl::waits() const {
  return earlier_waits_ + (source_ ? source_->waits() : 0);
}

DistributedIterator::DistributedIterator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DistributedIterator::~DistributedIterator() = default;
DistributedIterator::DistributedIterator(DistributedIterator&&) noexcept = default;
DistributedIterator& DistributedIterator::operator=(DistributedIterator&&) noexcept = default;

std::optional<PerReplica> DistributedIterator::next() { return impl_->take(/*only_complete=*/true); }

PerReplica DistributedIterator::get_next() {
  if (auto step = next()) return std::move(*step);
  throw OutOfRangeError("DistributedIterator.get_next: end of the data.");
}

Optional DistributedIterator::get_next_as_optional() {
  // As recorded from tf.distribute: where the cardinality is infinite, an end is an error.
  if (impl_->endless()) return Optional(get_next());
  return Optional(impl_->take(/*only_complete=*/false));
}

const StepInfo& DistributedIterator::step_info() const& {
  if (!impl_->info())
    throw FailedPreconditionError(
        "DistributedIterator.step_info: no step was handed out yet; call next first.");
  return *impl_->info();
}

void DistributedIterator::follow(const std::optional<StepInfo>& info, const State& after) {
  impl_->follow(info, after);
}
State DistributedIterator::save() const { return impl_->save(); }
State DistributedIterator::state_at(std::int64_t step) const { return impl_->state_at(step); }
void DistributedIterator::load(const State& state) { impl_->load(state); }
void DistributedIterator::set_weights(std::vector<double> weights, std::optional<std::int64_t> step) {
  impl_->set_weights(std::move(weights), step);
}
void DistributedIterator::exclude(std::vector<std::int64_t> rows) { impl_->exclude(std::move(rows)); }
bool DistributedIterator::is_remote() const { return impl_->is_remote(); }
void DistributedIterator::begin_reading(std::uint64_t seed) { impl_->begin_reading(seed); }
bool DistributedIterator::failed() const noexcept { return impl_->failed(); }
Stats DistributedIterator::stats() const { return impl_->stats(); }
void DistributedIterator::close(std::chrono::milliseconds timeout) { impl_->close(timeout); }

}  // namespace torch_distinput
