// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/pipelines_lane.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "distribute/zero_part.h"

namespace torch_distinput {
namespace {

using Steps = std::vector<std::optional<BuiltStep>>;

class PipelinesLane final : public Lane {
 public:
  PipelinesLane(DistributionPtr distribution, const IterContext& context, Start start,
                const ShippingPtr& shipping, Reading reading)
      : distribution_(std::move(distribution)), at_(std::move(start)) {
    at_.pipelines.resize(distribution_->pipelines.size());
    for (std::size_t i = 0; i < distribution_->pipelines.size(); ++i) {
      IterContext own = context;
      own.stream = i;
      lanes_.push_back(open_lane(distribution_->pipelines[i], own, at_.pipelines[i],
                                 shipping ? shipping->only(i) : nullptr, reading));
    }
  }

  std::optional<BuiltStep> next() override {
    Steps steps;
    for (const auto& lane : lanes_) steps.push_back(lane->next());
    const auto there =
        std::count_if(steps.begin(), steps.end(), [](const auto& step) { return step.has_value(); });
    if (there == 0 || (until_first() && there < std::ssize(steps))) return std::nullopt;
    return merge(steps, there == std::ssize(steps));
  }

  std::int64_t waits() const override {
    return std::accumulate(lanes_.begin(), lanes_.end(), std::int64_t{0},
                           [](std::int64_t sum, const auto& lane) { return sum + lane->waits(); });
  }

 private:
  bool until_first() const { return distribution_->input.tail == Tail::kUntilFirst; }

  BuiltStep merge(Steps& steps, bool complete) {
    BuiltStep merged;
    merged.complete = complete;
    bool all_end = true;
    bool one_ends = false;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const bool ends = !steps[i] || steps[i]->last;
      all_end = all_end && ends;
      one_ends = one_ends || ends;
      add(merged, steps[i], i);
      if (steps[i]) at_.pipelines[i] = std::move(steps[i]->after);
    }
    merged.last = until_first() ? one_ends : all_end;
    merged.last_complete = one_ends;
    finish(merged);
    return merged;
  }

  void add(BuiltStep& merged, std::optional<BuiltStep>& step, std::size_t replica) const {
    StepInfo& info = merged.info;
    merged.staged.push_back(step && !step->staged.empty() ? std::move(step->staged.front()) : nullptr);
    merged.parts.push_back(step ? std::move(step->parts.front()) : missing_part(replica));
    info.valid.push_back(step ? step->info.valid.front() : 0);
    info.has_value.push_back(step.has_value());
  }

  /// A dataset without elements may not know their type; then they look as those of the other replicas.
  Element missing_part(std::size_t replica) const {
    const auto& pipelines = distribution_->pipelines;
    const auto known =
        std::find_if(pipelines.begin(), pipelines.end(), [](const auto& p) { return p->spec; });
    const SpecPtr& own = pipelines[replica]->spec;
    return zero_element(own || known == pipelines.end() ? own : (*known)->spec,
                        *pipelines[replica]->dealing.node);
  }

  void finish(BuiltStep& merged) {
    StepInfo& info = merged.info;
    info.step = at_.position.step++;
    info.row_start = at_.position.row;
    info.num_replicas = distribution_->dealing.replicas.all();
    info.global_valid = std::accumulate(info.valid.begin(), info.valid.end(), std::int64_t{0});
    for (const std::int64_t valid : info.valid) info.loss_scale.push_back(loss_scale(info, valid));
    at_.position.row += info.global_valid;
    merged.after = at_;
  }

  DistributionPtr distribution_;
  Start at_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace

std::unique_ptr<Lane> open_pipelines_lane(const DistributionPtr& distribution, const IterContext& context,
                                          const Start& start, const ShippingPtr& shipping, Reading reading) {
  if (distribution->pipelines.size() > 1) reading = Reading::kAhead;
  return std::make_unique<PipelinesLane>(distribution, context, start, shipping, reading);
}

}  // namespace torch_distinput
