// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/sequential_source.h"

#include <exception>
#include <optional>
#include <utility>

#include "base/stage.h"
#include "core/interrupt_poll.h"
#include "distribute/steps/element_window.h"
#include "execution/open.h"
#include "execution/reading_thread.h"
#include "execution/reads_whole.h"
#include "kernels/rows.h"

namespace torch_distinput {
namespace {

WindowRules window_rules(const Distribution& distribution) {
  const Tail tail = distribution.input.tail;
  WindowRules rules;
  rules.whole = distribution.assignment.whole;
  rules.cuts_leaves = distribution.assignment.splitter->cuts_leaves();
  if (tail == Tail::kRepeat) {
    const RowAssignment& assignment = distribution.assignment;
    const std::int64_t most = assignment.schedule ? assignment.schedule->largest() : assignment.batch;
    rules.kept_rows = most > 0 ? most : kFirstElement;
  }
  return rules;
}

/// The costs of the rows of an element of the stream: by a plan where they are known, else row by row.
std::function<std::vector<double>(const Element&, Segment)> costs_of_elements(
    const Distribution& distribution, const IterContext& context) {
  const NodePtr known = distribution.known_costs();
  if (!distribution.balance && !known) return {};
  const NodePtr& node = distribution.assignment.node;
  if (known) {
    if (node->plan(context) == nullptr)
      refuse_stream(
          distribution.balance ? "InputOptions: a tensor `balance`" : "InputOptions: `split` \"lanes\"",
          *node, context,
          distribution.balance ? "give the name of a column, or a function" : "use `split` \"balanced\"");
    return [costs = known->plan(context)](const Element&, Segment rows) {
      return take_costs(*costs, {&rows, 1});
    };
  }
  return [costs = distribution.balance, key = context.rows_key()](const Element& element, Segment rows) {
    std::vector<double> values;
    for (std::int64_t row = 0; row < rows.end; ++row)
      values.push_back(costs->of(take_row(element, row, "InputOptions: `balance`"), row, key));
    return values;
  };
}

WindowInput window_input(const Distribution& distribution, const IterContext& context,
                         std::shared_ptr<const Upstream> upstream) {
  const auto opener = [&](const NodePtr& node) {
    return [node, context] { return open_iterator(node, context); };
  };
  WindowInput input{.open = opener(distribution.assignment.node), .upstream = std::move(upstream)};
  input.costs = costs_of_elements(distribution, context);
  // The input is only the rest of the epoch, so the epoch's first rows need another pipeline.
  if (distribution.rest) input.open_epoch = opener(distribution.assignment.sharding.node);
  return input;
}

/// Makes steps in order, in the calling thread.
class StepReader {
 public:
  StepReader(DistributionPtr distribution, const IterContext& context, const Start& start,
             DeviceTransferPtr transfer)
      : distribution_(std::move(distribution)),
        transfer_(std::move(transfer)),
        start_(start.position),
        skips_(!start.upstream && !distribution_->assignment.streams),
        window_(window_input(*distribution_, context, start.upstream), window_rules(*distribution_)) {}

  std::optional<BuiltStep> next() {
    const StageScope work(Stage::kBuild);
    if (!schedule_) {
      if (skips_) skip_rows();
      schedule_.emplace(distribution_->rules(), start_);
    }
    const auto planned = schedule_->next(window_);
    if (!planned) return std::nullopt;
    BuiltStep step = build_step(*distribution_, *planned, transfer_,
                                [this](const Part& part) { return window_.take(part); });
    const std::int64_t needed = distribution_->first_needed(planned->after.split.element);
    step.after.upstream = window_.upstream(needed);
    window_.drop_before(needed);
    return step;
  }

 private:
  /// Moves to the start by reading: the random-access path, which saved it, has no position of the input.
  void skip_rows() {
    SplitPosition& split = start_.split;
    split.element = 0;
    split.row = start_.row - split.part_rows;
    InterruptPoll poll;
    while (split.row > 0) {
      poll();
      const auto rows = window_.rows(split.element);
      if (!rows || *rows > split.row) break;
      split.row -= *rows;
      window_.drop_before(distribution_->first_needed(++split.element));
    }
  }

  DistributionPtr distribution_;
  DeviceTransferPtr transfer_;
  StepPosition start_;
  bool skips_;
  ElementWindow window_;
  std::optional<StepSchedule> schedule_;
};

class InlineSequentialStepSource final : public StepSource {
 public:
  InlineSequentialStepSource(DistributionPtr distribution, const IterContext& context, const Start& start,
                             const DeviceTransferPtr& transfer)
      : reader_(std::move(distribution), context, start, transfer) {}

  std::optional<BuiltStep> next() override {
    if (error_) std::rethrow_exception(error_);
    try {
      return reader_.next();
    } catch (...) {
      error_ = std::current_exception();
      throw;
    }
  }

 private:
  StepReader reader_;
  std::exception_ptr error_;
};

class ThreadedSequentialStepSource final : public StepSource {
 public:
  ThreadedSequentialStepSource(DistributionPtr distribution, const IterContext& context, const Start& start,
                               const DeviceTransferPtr& transfer)
      // While the queue is full, one more step waits outside it, and the schedule looks one more ahead.
      : capacity_(static_cast<std::size_t>(2 * distribution->input.per_replica_buffer_size - 1)),
        reader_(std::move(distribution), context, start, transfer),
        thread_("tdi-distribute", capacity_, [this] { return reader_.next(); }) {}

  std::optional<BuiltStep> next() override { return thread_.pop(); }
  bool ready() const override { return thread_.size() > 0; }
  std::int64_t waits() const override { return thread_.waits(); }
  bool survives_interrupt() const override { return true; }

 private:
  std::size_t capacity_;
  StepReader reader_;
  ReadingThread<BuiltStep> thread_;
};

/// Whether a thread that reads ahead gains nothing, because a native plan reads ahead itself. It does gain if
/// steps are copied to a device.
bool runs_ahead_by_itself(const Distribution& distribution, const IterContext& context,
                          const DeviceTransferPtr& transfer) {
  if (context.stream_only || transfer) return false;
  const PlanPtr plan = distribution.assignment.node->plan(context);
  return plan && !plan->traits().runs_user_code;
}

}  // namespace

std::unique_ptr<StepSource> open_sequential_source(const DistributionPtr& distribution,
                                                   const IterContext& context, const Start& start,
                                                   const DeviceTransferPtr& transfer, Reading reading) {
  if (reading == Reading::kHere || distribution->input.per_replica_buffer_size == 0 ||
      runs_ahead_by_itself(*distribution, context, transfer)) {
    return std::make_unique<InlineSequentialStepSource>(distribution, context, start, transfer);
  }
  return std::make_unique<ThreadedSequentialStepSource>(distribution, context, start, transfer);
}

}  // namespace torch_distinput
