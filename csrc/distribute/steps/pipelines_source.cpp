// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/pipelines_source.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "distribute/steps/zero_part.h"

namespace torch_distinput {
namespace {

using Steps = std::vector<std::optional<BuiltStep>>;

class PipelinesStepSource final : public StepSource {
 public:
  PipelinesStepSource(DistributionPtr distribution, Start start,
                      std::vector<std::unique_ptr<StepSource>> sources)
      : distribution_(std::move(distribution)), at_(std::move(start)), sources_(std::move(sources)) {
    at_.pipelines.resize(sources_.size());
  }

  std::optional<BuiltStep> next() override {
    Steps steps;
    for (const auto& path : sources_) steps.push_back(path->next());
    const auto there =
        std::count_if(steps.begin(), steps.end(), [](const auto& step) { return step.has_value(); });
    if (there == 0 || (until_first() && there < std::ssize(steps))) return std::nullopt;
    return merge(steps, there == std::ssize(steps));
  }

  std::int64_t waits() const override {
    return std::accumulate(sources_.begin(), sources_.end(), std::int64_t{0},
                           [](std::int64_t sum, const auto& path) { return sum + path->waits(); });
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

  /// A dataset without elements may not know their type; the part then has that of another replica's.
  Element missing_part(std::size_t replica) const {
    const auto& pipelines = distribution_->pipelines;
    const auto known =
        std::find_if(pipelines.begin(), pipelines.end(), [](const auto& p) { return p->spec; });
    const SpecPtr& own = pipelines[replica]->spec;
    return zero_element(own || known == pipelines.end() ? own : (*known)->spec,
                        *pipelines[replica]->assignment.node);
  }

  void finish(BuiltStep& merged) {
    StepInfo& info = merged.info;
    info.step = at_.position.step++;
    info.row_start = at_.position.row;
    info.num_replicas = distribution_->assignment.replicas.all();
    info.global_valid = std::accumulate(info.valid.begin(), info.valid.end(), std::int64_t{0});
    for (const std::int64_t valid : info.valid) info.loss_scale.push_back(loss_scale(info, valid));
    at_.position.row += info.global_valid;
    merged.after = at_;
  }

  DistributionPtr distribution_;
  Start at_;
  std::vector<std::unique_ptr<StepSource>> sources_;
};

}  // namespace

std::unique_ptr<StepSource> join_pipelines(const DistributionPtr& distribution, const Start& start,
                                           std::vector<std::unique_ptr<StepSource>> sources) {
  return std::make_unique<PipelinesStepSource>(distribution, start, std::move(sources));
}

}  // namespace torch_distinput
