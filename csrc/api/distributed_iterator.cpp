// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/distributed_iterator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

#include "base/counters.h"
#include "base/stage.h"
#include "core/interrupt_watch.h"
#include "distribute/coordination/report_failure.h"
#include "distribute/coordination/synchronized_source.h"
#include "distribute/steps/built_step.h"
#include "distribute/steps/device_placement.h"
#include "distribute/steps/open_step_source.h"
#include "execution/any_op.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/sampled.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/error.h"

namespace torch_distinput {

namespace {

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
                                EpochPosition at, bool stream_only, std::unique_ptr<PeerLink> link,
                                bool seed_given, std::vector<Handshake::Fact> facts)
    : given_(std::move(distribution)),
      distribution_(given_),
      at_(std::move(at)),
      stream_only_(stream_only),
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
  try {
    if (link_) open_with_peers();
    step = peek();
    if (link_ && hands_out(step, only_complete)) link_->check_together(at_.start.position.step);
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
      *link_, [this] { return describe_handshake(*distribution_, at_, seed_given_, facts_); });
  const std::int64_t began = clock_ns();
  const HandshakeSummary all = [&] {
    const StageScope waits(Stage::kWait);
    return link_->agree(mine);
  }();
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

std::unique_ptr<StepSource> DistributedIterator::Impl::make_step_source() {
  if (!transfer_) transfer_ = open_device_transfer(*given_);
  const std::shared_ptr<ExecutionContext>& execution = shell_.execution();
  execution->one_order = link_ && distribution_->one_stream();
  execution->left_to_devices.clear();
  for (const auto& left : left_to_devices(*distribution_)) execution->left_to_devices.push_back(left->node);
  const IterContext context = context_of(*distribution_);
  agrees_ = link_ && !keeps_together(context);
  if (!agrees_) return open_step_source(distribution_, context, at_.start, transfer_);
  return open_synchronized_source(distribution_, context, at_.start, transfer_, link_->rounds(),
                                  *execution->counters, rows_before_);
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
  const bool shares_stream = given_->pipelines.empty() && (!link_ || given_->one_stream());
  const auto rows = shares_stream ? plan_rows(*given_, context_of(*given_)) : nullptr;
  const auto steps = rows ? count_steps(given_->rules(), *rows, /*only_complete=*/false) : std::nullopt;
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
  at.start.position = position_after(given_->rules(), *rows, step);
  return save_position({given_, std::move(at)});
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
  stats.sampled = sampled_in(save());
  if (stats.sampled.empty()) stats.sampled = sampled_by_plan();
  return stats;
}

/// What was drawn from each dataset of a mixture that is read by position: such positions have no counts.
std::vector<std::int64_t> DistributedIterator::Impl::sampled_by_plan() const {
  const bool own = !distribution_->pipelines.empty();
  const Distribution& read = own ? *distribution_->pipelines.front() : *distribution_;
  if (!any_op(*read.assignment.node, [](const Node& op) { return op.traits().order.mixes; })) return {};
  const auto rows = plan_rows(read, context_of(read));
  if (rows == nullptr) return {};
  const Start start = !own ? at_.start : at_.start.pipelines.empty() ? Start{} : at_.start.pipelines.front();
  const SplitPosition& split = start.position.split;
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

State DistributedIterator::save() const { return impl_->save(); }
State DistributedIterator::state_at(std::int64_t step) const { return impl_->state_at(step); }
void DistributedIterator::load(const State& state) { impl_->load(state); }
Stats DistributedIterator::stats() const { return impl_->stats(); }
void DistributedIterator::close(std::chrono::milliseconds timeout) { impl_->close(timeout); }

}  // namespace torch_distinput
