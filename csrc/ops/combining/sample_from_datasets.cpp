// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>
#include <variant>
#include <vector>

#include <c10/util/Exception.h>

#include "core/batch_schedule.h"
#include "core/element_type.h"
#include "core/state_reader.h"
#include "execution/changed_weights.h"
#include "execution/counts_steps.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/sampled.h"
#include "ops/combining/common_spec.h"
#include "ops/combining/mean_length.h"
#include "ops/combining/mixture_plan.h"
#include "ops/ops.h"
#include "runtime/mixture_order.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kSampleFromDatasetsName = "sample_from_datasets";

/// Draws by a `MixtureOrder`, which finds out where inputs end. The state has these positions, and the states
/// of all inputs. What was drawn from each input is there for `Stats::sampled`.
class SampleIterator final : public Iterator {
 public:
  /// `limit`: the number of elements after which it ends at the latest. `stop_on`: what else ends it.
  SampleIterator(std::vector<IteratorPtr> inputs, MixtureOrder order, StopOn stop_on, std::int64_t limit)
      : inputs_(std::move(inputs)),
        unread_(std::move(order)),
        order_(unread_),
        stop_on_(stop_on),
        limit_(limit) {}

  std::optional<Element> next() override {
    while (!stopped_ && elements_ < limit_) {
      order_.reach(elements_);
      if (order_.ends_before(elements_)) break;
      if (std::optional<Element> element = inputs_[order_.locate(elements_).input]->next()) {
        type_.check(*element, elements_++, kSampleFromDatasetsName);
        return element;
      }
      if (stop_on_ == StopOn::kFirst)
        stopped_ = true;
      else
        end_input();
    }
    return std::nullopt;
  }

  State save() const override {
    State::List inputs;
    for (const IteratorPtr& input : inputs_) inputs.push_back(input->save());
    State state;
    state.set("inputs", std::move(inputs)).set("ends", list_of(ends_)).set("stopped", stopped_);
    return state.set("elements", elements_).set(kSampled, list_of(order_.counts(elements_)));
  }

  void load(const State& state) override {
    const StateReader saved(state, kSampleFromDatasetsName);
    const State::List& inputs = saved.list("inputs", inputs_.size());
    load_ends(saved.list("ends"), saved.count("elements"));
    stopped_ = saved.flag("stopped");
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i]->load(inputs[i]);
  }

 private:
  /// The input that is drawn next has ended.
  void end_input() {
    order_.end(elements_);
    ends_.push_back(elements_);
  }

  void load_ends(const State::List& ends, std::int64_t elements) {
    order_ = unread_;
    ends_.clear();
    elements_ = 0;
    for (const State& end : ends) {
      const auto* position = std::get_if<std::int64_t>(&end.value());
      if (position != nullptr) order_.reach(*position);
      TORCH_CHECK_VALUE(position != nullptr && *position >= elements_ && *position <= elements &&
                            !order_.ends_before(*position),
                        kSampleFromDatasetsName,
                        ": the saved `ends` must be increasing integers up to the saved `elements`, one for "
                        "each dataset at most, but has ",
                        brief(end), ".");
      elements_ = *position;
      end_input();
    }
    elements_ = elements;
    order_.reach(elements_);
  }

  std::vector<IteratorPtr> inputs_;
  MixtureOrder unread_;  ///< as at the first element
  MixtureOrder order_;
  StopOn stop_on_;
  std::int64_t limit_;
  std::vector<std::int64_t> ends_;  ///< where inputs were found to have ended
  bool stopped_ = false;            ///< the input that is drawn next has ended, and that ends the mixture
  std::int64_t elements_ = 0;
  ElementType type_;
};

/// Weights by step, checked: those that do not change from step 0 on.
std::vector<WeightsFrom> checked_schedule(const SampleOptions& options, std::size_t inputs) {
  TORCH_CHECK_VALUE(options.weights.empty() || options.schedule.empty(), kSampleFromDatasetsName,
                    ": give either `weights` or a schedule of them, not both.");
  if (options.schedule.empty()) {
    if (options.weights.empty()) return {{0, std::vector<double>(inputs, 1.0)}};
    return {{0, options.weights}};
  }
  TORCH_CHECK_VALUE(options.schedule.front().step == 0, kSampleFromDatasetsName,
                    ": the schedule `weights` must begin with those from step 0 on, but begins at step ",
                    options.schedule.front().step, ".");
  for (std::size_t i = 1; i < options.schedule.size(); ++i) {
    const std::int64_t before = options.schedule[i - 1].step;
    TORCH_CHECK_VALUE(before < options.schedule[i].step, kSampleFromDatasetsName,
                      ": the steps of the schedule `weights` must increase, but ", options.schedule[i].step,
                      " follows ", before, ".");
  }
  return options.schedule;
}

void describe_weights(std::ostream& out, const std::vector<double>& weights) {
  const char* separator = "[";
  for (const double weight : weights) out << std::exchange(separator, ", ") << weight;
  out << ']';
}

/// As tf.data's sample_from_datasets: each input keeps its order, and the draws differ in each epoch. By
/// default it goes on until all inputs of weight above 0 have ended. Elements must be of one structure, kinds
/// and dtypes. Random access if all inputs that are drawn have it; no batch size. The cardinality, unknown in
/// tf.data, is the sum; where it stops before the first end, the elements that are sure in every epoch.
/// Weights that change are not in tf.data.
class SampleNode final : public Node, public CountsSteps {
 public:
  /// `options`: checked, with a schedule. `steps`: null where an element is a step.
  SampleNode(std::vector<NodePtr> inputs, SampleOptions options, BatchSchedulePtr steps)
      : inputs_(std::move(inputs)), options_(std::move(options)), steps_(std::move(steps)) {
    for (const WeightsFrom& entry : options_.schedule)
      weights_.push_back({steps_ == nullptr ? entry.step : steps_->first_row(entry.step), entry.weights});
  }

  std::string_view name() const override { return kSampleFromDatasetsName; }
  std::string describe() const override {
    std::ostringstream out;
    out << kSampleFromDatasetsName << '(';
    const char* separator = "";
    if (!options_.weights.empty()) {
      out << std::exchange(separator, ", ") << "weights=";
      describe_weights(out, options_.weights);
    }
    if (changes()) {
      out << std::exchange(separator, ", ") << "weights=";
      const char* before = "[(";
      for (const WeightsFrom& entry : options_.schedule) {
        out << std::exchange(before, ", (") << entry.step << ", ";
        describe_weights(out, entry.weights);
        out << ')';
      }
      out << ']';
    }
    if (changes() && steps_ != nullptr)
      out << std::exchange(separator, ", ") << "elements_per_step=" << steps_->describe();
    if (options_.seed) out << std::exchange(separator, ", ") << "seed=" << *options_.seed;
    if (options_.by == SharesOf::kTokens) out << std::exchange(separator, ", ") << "by=tokens";
    if (options_.key) out << std::exchange(separator, ", ") << "key=" << *options_.key;
    if (stops_on_first()) out << std::exchange(separator, ", ") << "stop_on=first";
    out << ')';
    return out.str();
  }
  /// A position of the independent draws that there were at first is one of another order.
  std::string identity() const override { return describe() + ", order 2"; }
  std::vector<NodePtr> inputs() const override { return inputs_; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<SampleNode>(std::move(inputs), options_, steps_);
  }
  bool lacks_steps() const override { return changes() && steps_ == nullptr; }
  NodePtr with_steps(const BatchSchedule& sizes) const override {
    return std::make_shared<SampleNode>(inputs_, options_, std::make_shared<const BatchSchedule>(sizes));
  }

  SpecPtr spec() const override { return common_spec(inputs_, kSampleFromDatasetsName); }

  std::int64_t cardinality() const override { return length(weights_); }
  Traits traits() const override {
    return {.order = {.mixes = true,
                      .unseeded = !options_.seed.has_value(),
                      .counts = changes(),
                      .permutes = draws_all()}};
  }

  PlanPtr plan(const IterContext& context) const override {
    Weights weights = weights_in(context);
    // Which draw is the first from a dataset that has ended is found out by reading, if not known before.
    if (stops_on_first() && length(weights) == kUnknownCardinality) return nullptr;
    std::vector<PlanPtr> parts(inputs_.size());
    std::vector<std::int64_t> sizes(inputs_.size(), 0);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (!draws(weights, i)) continue;
      parts[i] = inputs_[i]->plan(context.input(i));
      if (parts[i] == nullptr) return nullptr;
      sizes[i] = parts[i]->size();
    }
    MixtureOrder mixture = order(std::move(weights), context);
    const std::int64_t size = length_of(mixture, std::move(sizes));
    auto undrawn = [inputs = inputs_, context](std::size_t i) { return inputs[i]->plan(context.input(i)); };
    return mixture_plan(std::move(parts), std::make_shared<const MixtureOrder>(std::move(mixture)), size,
                        /*turns=*/nullptr, kSampleFromDatasetsName, std::move(undrawn));
  }

  IteratorPtr iterate(const IterContext& context) const override {
    std::vector<IteratorPtr> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      inputs.push_back(open_iterator(inputs_[i], context.input(i)));
    Weights weights = weights_in(context);
    const std::int64_t limit = stops_on_first() ? length(weights) : kInfiniteCardinality;
    return std::make_unique<SampleIterator>(std::move(inputs), order(std::move(weights), context),
                                            options_.stop_on, limit < 0 ? kNever : limit);
  }

 private:
  static_assert(kNever == kEndless);
  using Weights = std::vector<WeightsFromPosition>;

  bool stops_on_first() const { return options_.stop_on == StopOn::kFirst; }
  bool changes() const { return options_.schedule.size() > 1; }
  /// Whether elements of an input are drawn at some step.
  static bool draws(const Weights& weights, std::size_t input) {
    return std::any_of(weights.begin(), weights.end(),
                       [input](const WeightsFromPosition& entry) { return entry.weights[input] > 0; });
  }
  /// Whether that goes on until it has ended, or something else ends the mixture.
  bool draws_up(const Weights& weights, std::size_t input) const {
    return stops_on_first() || weights.back().weights[input] > 0;
  }

  /// Whether all elements of all inputs are drawn.
  bool draws_all() const {
    const std::vector<double>& last = weights_.back().weights;
    return !stops_on_first() && std::find(last.begin(), last.end(), 0) == last.end();
  }

  /// `weights_`, with those that were set while it was read.
  Weights weights_in(const IterContext& context) const {
    const ChangedWeights& changed = context.execution->changed_weights;
    Weights weights = weights_;
    if (changed.mixture != this) return weights;
    for (const WeightsFromPosition& entry : changed.weights)
      weights = with_change(std::move(weights), entry.position, entry.weights);
    return weights;
  }
  MixtureOrder order(Weights weights, const IterContext& context) const {
    return {of_elements(std::move(weights)), context.key(options_.seed, /*every_epoch=*/true)};
  }
  /// Weights by which elements are drawn.
  Weights of_elements(Weights weights) const {
    if (options_.by == SharesOf::kElements) return weights;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (!draws(weights, i)) continue;
      const double mean = means_->of(i, *inputs_[i], options_.key, name());
      for (WeightsFromPosition& entry : weights) entry.weights[i] /= mean;
    }
    return weights;
  }

  /// The cardinality with these weights.
  std::int64_t length(const Weights& weights) const {
    std::vector<std::int64_t> sizes(inputs_.size(), 0);
    bool unknown = false;
    bool infinite = false;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (!draws(weights, i)) continue;
      sizes[i] = inputs_[i]->cardinality();
      unknown = unknown || sizes[i] == kUnknownCardinality || !draws_up(weights, i);
      infinite = infinite || (sizes[i] == kInfiniteCardinality && draws_up(weights, i));
      if (sizes[i] == kInfiniteCardinality) sizes[i] = kNever;
    }
    if (infinite && !stops_on_first()) return kInfiniteCardinality;
    if (unknown) return kUnknownCardinality;
    // Any key: the length is the same under all of them.
    MixtureOrder any(of_elements(weights), 0);
    const std::int64_t elements = length_of(any, std::move(sizes));
    return elements == kNever ? kInfiniteCardinality : elements;
  }
  /// The number of elements over inputs of these sizes, of which `order` takes note.
  std::int64_t length_of(MixtureOrder& order, std::vector<std::int64_t> sizes) const {
    return stops_on_first() ? order.sure_length(std::move(sizes)) : order.end_all(std::move(sizes));
  }

  std::vector<NodePtr> inputs_;
  SampleOptions options_;
  BatchSchedulePtr steps_;
  Weights weights_;  ///< those of the schedule, by element
  std::unique_ptr<MeanLengths> means_ = std::make_unique<MeanLengths>();
};

}  // namespace

NodePtr sample_from_datasets(std::vector<NodePtr> inputs, SampleOptions options) {
  check_inputs(inputs, kSampleFromDatasetsName);
  TORCH_CHECK_VALUE(!options.key || options.by == SharesOf::kTokens, kSampleFromDatasetsName,
                    ": `key` names the tokens for `by=\"tokens\"`, but shares are of elements.");
  options.schedule = checked_schedule(options, inputs.size());
  for (const WeightsFrom& entry : options.schedule)
    check_weights(kSampleFromDatasetsName, entry.weights, inputs.size());
  BatchSchedulePtr steps;
  if (options.elements_per_step) {
    TORCH_CHECK_VALUE(*options.elements_per_step >= 1, kSampleFromDatasetsName,
                      ": `elements_per_step` must be at least 1, but is ", *options.elements_per_step, ".");
    steps = std::make_shared<const BatchSchedule>(kSampleFromDatasetsName, *options.elements_per_step);
  }
  return std::make_shared<SampleNode>(std::move(inputs), std::move(options), std::move(steps));
}

}  // namespace torch_distinput::ops
