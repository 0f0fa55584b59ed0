// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <vector>

#include "core/batch_schedule.h"
#include "distribute/splitting/deal_by_cost.h"
#include "distribute/splitting/splitter.h"
#include "distribute/splitting/step_balancer.h"
#include "distribute/splitting/tail.h"

namespace torch_distinput {

/// The parameters of a schedule.
struct ScheduleRules {
  SplitterPtr splitter;
  std::int64_t width = 1;  ///< parts in a step: the replicas that share the stream
  Tail tail = Tail::kZeroRows;
  std::int64_t batch = -1;         ///< rows of a full batch; -1: as many as the first element has
  BatchSchedulePtr schedule = {};  ///< the same by the number of the element, where it changes
  bool endless = false;            ///< the data never ends
  bool keeps_empty = false;        ///< steps without rows at the end are delivered too
  /// Elements in a window whose rows are exchanged so that parts cost the same; 0: they stay where they are.
  std::int64_t balance_window = 0;
  DealRows deal = deal_by_cost;  ///< how they are exchanged
};

/// A position between two steps of an epoch.
struct StepPosition {
  std::int64_t step = 0;  ///< steps before
  std::int64_t row = 0;   ///< rows of the data before
  SplitPosition split = {};
};

/// A step before its data is fetched.
struct PlannedStep {
  std::vector<Part> parts = {};          ///< of all replicas that share the stream
  std::vector<std::int64_t> valid = {};  ///< rows of each part that count
  std::int64_t global_valid = 0;         ///< sum of `valid`
  /// The part that has each row that counts, in the order of the data; empty: the parts have them in order.
  std::vector<std::int32_t> dealt = {};
  std::int64_t batch = -1;     ///< rows of a full batch, or -1
  bool complete = true;        ///< every replica's part was produced or filled
  bool last = false;           ///< no step follows
  bool last_complete = false;  ///< no complete step follows
  /// For the last step: which parts are present in each step after it. Those steps have no rows and are left
  /// out.
  std::vector<std::vector<bool>> left_out = {};
  StepPosition before = {};
  StepPosition after = {};
};

/// Plans the steps of an epoch in order: groups the splitter's parts, applies the tail policy, leaves out the
/// steps without rows at the end and knows which step is the last. Looks one or two steps ahead. One thread
/// at a time.
class StepSchedule {
 public:
  StepSchedule(ScheduleRules rules, StepPosition start)
      : rules_(std::move(rules)), start_(start.split), at_(start), assigned_to_(start.split) {
    if (rules_.balance_window > 0) balancer_.emplace(rules_.balance_window, rules_.deal);
  }

  /// The next step; nullopt at the end. An exception of `counts` is thrown after the steps before it were
  /// returned, and again at every later call.
  std::optional<PlannedStep> next(RowCounts& counts);

 private:
  void learn_batch(RowCounts& counts);
  void look_ahead(RowCounts& counts);
  void assign(RowCounts& counts);
  PlannedStep plan_front(RowCounts& counts);
  std::vector<std::int32_t> balance(AssignedStep& step, bool last, RowCounts& counts);

  std::size_t steps_wanted() const;
  void merge_last();
  bool fills() const { return rules_.tail == Tail::kPadded || rules_.tail == Tail::kRepeat; }
  bool is_last(std::size_t index) const;
  bool is_complete(const AssignedStep& step) const;
  bool ends(std::size_t index) const;
  bool is_rest(std::size_t index) const;
  std::int64_t full_batch(const AssignedStep& step) const;
  std::vector<std::int64_t> shares(const AssignedStep& step) const;
  std::vector<std::vector<bool>> left_out() const;

  ScheduleRules rules_;
  SplitPosition start_;
  StepPosition at_;            // before the next step to hand out
  SplitPosition assigned_to_;  // after everything in ahead_
  std::deque<AssignedStep> ahead_;
  std::size_t settled_ = 0;  // number of steps at the front of ahead_ that are not empty steps at the end
  bool data_ended_ = false;
  std::optional<StepBalancer> balancer_;
  std::exception_ptr error_;
};

}  // namespace torch_distinput
