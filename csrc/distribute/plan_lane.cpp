// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/plan_lane.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/engine.h"
#include "core/state_reader.h"
#include "distribute/planned_steps.h"
#include "distribute/read_ahead.h"
#include "kernels/rows.h"
#include "runtime/arena.h"
#include "runtime/worker_thread.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

/// Makes step after step, by many threads at a time.
class StepMaker {
 public:
  StepMaker(DistributionPtr distribution, std::shared_ptr<PlanRows> rows, const StepPosition& start,
            ShippingPtr shipping)
      : distribution_(std::move(distribution)),
        rows_(rows),
        steps_(distribution_->rules(), start, std::move(rows)),
        shipping_(std::move(shipping)) {}

  std::optional<BuiltStep> make(std::int64_t index) {
    const auto planned = steps_.take(index);
    if (!planned) return std::nullopt;
    Element with_rows;
    return build_step(*distribution_, *planned, shipping_, [&](const Part& part) {
      if (rows_->unbatched()) return fetch(part);
      // No need to fetch data for the shape of a part without rows.
      if (part.rows == 0 && with_rows.rows()) return slice_rows(with_rows, 0, 0, "distribute_dataset");
      Element rows = rows_->plan()->take_rows(part.segments);
      if (part.rows > 0) with_rows = rows;
      return rows;
    });
  }

 private:
  Element fetch(const Part& part) const {
    std::int64_t position = part.segments.front().element;
    return std::move(rows_->plan()->fetch({&position, 1}).front());
  }

  DistributionPtr distribution_;
  std::shared_ptr<PlanRows> rows_;
  PlannedSteps steps_;
  ShippingPtr shipping_;
};

class PlanLane final : public Lane {
 public:
  using Producer = OrderedProducer<std::optional<BuiltStep>>;

  PlanLane(const std::shared_ptr<StepMaker>& maker, std::shared_ptr<Executor> executor, ProducerOptions ahead)
      : producer_([maker](std::int64_t index) { return maker->make(index); }, 0,
                  std::numeric_limits<std::int64_t>::max(), std::move(executor), ahead) {}

  std::optional<BuiltStep> next() override {
    if (ended_) return std::nullopt;
    auto item = producer_.next(interrupt_check());
    ended_ = !item || !*item;
    return ended_ ? std::nullopt : std::move(*item);
  }
  bool ready() const override { return ended_ || producer_.ready(); }
  std::int64_t waits() const override { return producer_.waits(); }
  bool survives_interrupt() const override { return !producer_.failed(); }

 private:
  Producer producer_;
  bool ended_ = false;
};

std::shared_ptr<Executor> executor_for(const Distribution& distribution, const PlanRows& rows,
                                       const IterContext& context) {
  if (distribution.input.per_replica_buffer_size == 0) return serial_executor();
  const PlanTraits traits = rows.plan()->traits();
  if (!traits.foreign && traits.blocks) return make_lanes_beside(*context.engine->executor, "tdi-read");
  if (!traits.foreign) return context.engine->executor;
  return make_lanes(static_cast<int>(std::max<std::int64_t>(traits.lanes, 1)), "tdi-distribute");
}

}  // namespace

std::unique_ptr<Lane> open_plan_lane(const DistributionPtr& distribution, std::shared_ptr<PlanRows> rows,
                                     const IterContext& context, const StepPosition& start,
                                     const ShippingPtr& shipping) {
  auto executor = executor_for(*distribution, *rows, context);
  ProducerOptions ahead = read_ahead(*distribution, *rows);
  // A copy to a device has to begin before its step is asked for.
  if (shipping) ahead.quick = {};
  const StepPosition position = fit_position(start, *rows);
  return std::make_unique<PlanLane>(
      std::make_shared<StepMaker>(distribution, std::move(rows), position, shipping), std::move(executor),
      ahead);
}

StepPosition fit_position(StepPosition start, const PlanRows& rows) {
  const SplitCursor& cursor = start.cursor;
  if (rows.size() == kEndless) check_rows_of_endless("DistributedIterator", cursor.element, start.row);
  const bool fits = cursor.element <= rows.size() &&
                    rows.rows_before(cursor.element) + cursor.row + cursor.part_rows == start.row;
  if (!fits) start.cursor = rows.locate(start.row);
  return start;
}

}  // namespace torch_distinput
