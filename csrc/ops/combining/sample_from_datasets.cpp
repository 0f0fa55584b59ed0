// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <sstream>
#include <utility>
#include <variant>
#include <vector>

#include <c10/util/Exception.h>

#include "core/element_type.h"
#include "core/state_reader.h"
#include "execution/open.h"
#include "execution/sampled.h"
#include "ops/combining/common_spec.h"
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
    while (!stopped_ && elements_ < limit_ && !order_.ends_before(elements_)) {
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

/// As tf.data's sample_from_datasets: each input keeps its order, and the draws differ in each epoch. By
/// default it goes on until all inputs of weight above 0 have ended. Elements must be of one structure, kinds
/// and dtypes. Random access if all inputs that are drawn have it; no batch size. The cardinality, unknown in
/// tf.data, is the sum; where it stops before the first end, the elements that are sure in every epoch.
class SampleNode final : public Node {
 public:
  SampleNode(std::vector<NodePtr> inputs, SampleOptions options)
      : inputs_(std::move(inputs)), options_(std::move(options)) {}

  std::string_view name() const override { return kSampleFromDatasetsName; }
  std::string describe() const override {
    std::ostringstream out;
    out << kSampleFromDatasetsName << '(';
    const char* separator = "weights=[";
    for (const double weight : options_.weights) out << std::exchange(separator, ", ") << weight;
    if (!options_.weights.empty()) out << ']';
    if (options_.seed) out << (options_.weights.empty() ? "" : ", ") << "seed=" << *options_.seed;
    if (stops_on_first()) out << (options_.weights.empty() && !options_.seed ? "" : ", ") << "stop_on=first";
    out << ')';
    return out.str();
  }
  /// A position of the independent draws that there were at first is one of another order.
  std::string identity() const override { return describe() + ", order 2"; }
  std::vector<NodePtr> inputs() const override { return inputs_; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return sample_from_datasets(std::move(inputs), options_);
  }

  SpecPtr spec() const override { return common_spec(inputs_, kSampleFromDatasetsName); }

  std::int64_t cardinality() const override {
    std::vector<std::int64_t> sizes(inputs_.size(), 0);
    bool unknown = false;
    bool infinite = false;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (draws(i)) sizes[i] = inputs_[i]->cardinality();
      unknown = unknown || sizes[i] == kUnknownCardinality;
      infinite = infinite || sizes[i] == kInfiniteCardinality;
      if (sizes[i] == kInfiniteCardinality) sizes[i] = kNever;
    }
    if (infinite && !stops_on_first()) return kInfiniteCardinality;
    if (unknown) return kUnknownCardinality;
    // Any key: the length is the same under all of them.
    MixtureOrder any = order(std::uint64_t{0});
    const std::int64_t length = length_of(any, sizes);
    return length == kNever ? kInfiniteCardinality : length;
  }
  Traits traits() const override {
    return {.order = {.mixes = true, .unseeded = !options_.seed.has_value()}};
  }

  PlanPtr plan(const IterContext& context) const override {
    std::vector<PlanPtr> parts(inputs_.size());
    std::vector<std::int64_t> sizes(inputs_.size(), 0);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (!draws(i)) continue;
      parts[i] = inputs_[i]->plan(context.input(i));
      if (parts[i] == nullptr) return nullptr;
      sizes[i] = parts[i]->size();
    }
    MixtureOrder mixture = order(context);
    const std::int64_t size = length_of(mixture, sizes);
    return mixture_plan(std::move(parts), std::move(mixture), size, kSampleFromDatasetsName);
  }

  IteratorPtr iterate(const IterContext& context) const override {
    std::vector<IteratorPtr> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      inputs.push_back(open_iterator(inputs_[i], context.input(i)));
    const std::int64_t length = stops_on_first() ? cardinality() : kInfiniteCardinality;
    return std::make_unique<SampleIterator>(std::move(inputs), order(context), options_.stop_on,
                                            length < 0 ? kNever : length);
  }

 private:
  static_assert(kNever == kEndless);

  bool stops_on_first() const { return options_.stop_on == StopOn::kFirst; }
  bool draws(std::size_t input) const { return options_.weights.empty() || options_.weights[input] > 0; }

  MixtureOrder order(std::uint64_t key) const {
    const std::vector<double> equal(options_.weights.empty() ? inputs_.size() : 0, 1.0);
    return {options_.weights.empty() ? equal : options_.weights, key};
  }
  MixtureOrder order(const IterContext& context) const {
    return order(context.key(options_.seed, /*every_epoch=*/true));
  }

  /// The number of elements over inputs of these sizes, of which `order` takes note.
  std::int64_t length_of(MixtureOrder& order, std::span<const std::int64_t> sizes) const {
    return stops_on_first() ? order.sure_length(sizes) : order.end_all(sizes);
  }

  std::vector<NodePtr> inputs_;
  SampleOptions options_;
};

}  // namespace

NodePtr sample_from_datasets(std::vector<NodePtr> inputs, SampleOptions options) {
  check_inputs(inputs, kSampleFromDatasetsName);
  const std::vector<double>& weights = options.weights;
  TORCH_CHECK_VALUE(weights.empty() || weights.size() == inputs.size(), kSampleFromDatasetsName,
                    ": `weights` must have one entry for each of the ", inputs.size(), " datasets, but has ",
                    weights.size(), ".");
  for (const double weight : weights) {
    TORCH_CHECK_VALUE(std::isfinite(weight) && weight >= 0, kSampleFromDatasetsName,
                      ": `weights` must be finite and at least 0, but one is ", weight, ".");
  }
  TORCH_CHECK_VALUE(weights.empty() || std::accumulate(weights.begin(), weights.end(), 0.0) > 0,
                    kSampleFromDatasetsName, ": `weights` must not all be 0.");
  return std::make_shared<SampleNode>(std::move(inputs), std::move(options));
}

}  // namespace torch_distinput::ops
