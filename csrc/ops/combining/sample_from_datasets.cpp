// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
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
#include "ops/ops.h"
#include "runtime/permutation.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kSampleFromDatasetsName = "sample_from_datasets";

/// Returns random number `draw` under `key`, uniform in [0, 1).
double uniform(std::uint64_t key, std::int64_t draw) {
  return static_cast<double>(mix_keys(key, static_cast<std::uint64_t>(draw)) >> 11) * 0x1p-53;
}

/// A draw is a function of the key and its number, so the state has the number of draws, and the states of
/// all inputs. What was drawn from each input is counted for `Stats::sampled`.
class SampleIterator final : public Iterator {
 public:
  SampleIterator(std::vector<IteratorPtr> inputs, std::vector<double> weights, std::uint64_t key)
      : inputs_(std::move(inputs)),
        weights_(std::move(weights)),
        key_(key),
        ended_(inputs_.size(), false),
        sampled_(inputs_.size(), 0) {}

  std::optional<Element> next() override {
    while (const std::optional<std::size_t> input = draw()) {
      if (std::optional<Element> element = inputs_[*input]->next()) {
        type_.check(*element, elements_++, kSampleFromDatasetsName);
        ++sampled_[*input];
        return element;
      }
      ended_[*input] = true;
    }
    return std::nullopt;
  }

  State save() const override {
    State::List inputs;
    State::List ended;
    State::List sampled;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      inputs.push_back(inputs_[i]->save());
      ended.emplace_back(bool{ended_[i]});
      sampled.emplace_back(sampled_[i]);
    }
    State state;
    state.set("inputs", std::move(inputs)).set("ended", std::move(ended)).set(kSampled, std::move(sampled));
    return state.set("draws", draws_).set("elements", elements_);
  }

  void load(const State& state) override {
    const StateReader saved(state, kSampleFromDatasetsName);
    const State::List& inputs = saved.list("inputs", inputs_.size());
    const State::List& ended = saved.list("ended", inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const auto* flag = std::get_if<bool>(&ended[i].value());
      TORCH_CHECK_VALUE(flag != nullptr, kSampleFromDatasetsName,
                        ": the saved `ended` must be bools, but has ", brief(ended[i]), ".");
      ended_[i] = *flag;
    }
    draws_ = saved.count("draws");
    elements_ = saved.count("elements", draws_);
    load_sampled(saved);
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i]->load(inputs[i]);
  }

 private:
  /// States of version 0.1 do not have the counts: they then begin at 0.
  void load_sampled(const StateReader& saved) {
    sampled_.assign(inputs_.size(), 0);
    if (!saved.has(kSampled)) return;
    const State::List& counts = saved.list(kSampled, inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const auto* count = std::get_if<std::int64_t>(&counts[i].value());
      TORCH_CHECK_VALUE(count != nullptr && *count >= 0 && *count <= elements_, kSampleFromDatasetsName,
                        ": the saved `sampled` must be integers in [0, ", elements_, "], but has ",
                        brief(counts[i]), ".");
      sampled_[i] = *count;
    }
  }

  /// Draws one of the inputs that have not ended, by their weights; nullopt if all have ended or weigh 0.
  std::optional<std::size_t> draw() {
    double total = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i) total += ended_[i] ? 0 : weights_[i];
    if (total == 0) return std::nullopt;
    double left = uniform(key_, draws_++) * total;
    std::optional<std::size_t> drawn;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (ended_[i] || weights_[i] == 0) continue;
      drawn = i;
      if (left < weights_[i]) break;
      left -= weights_[i];
    }
    return drawn;
  }

  std::vector<IteratorPtr> inputs_;
  std::vector<double> weights_;
  std::uint64_t key_;
  std::vector<bool> ended_;
  std::vector<std::int64_t> sampled_;  ///< elements drawn from each input
  std::int64_t draws_ = 0;
  std::int64_t elements_ = 0;
  ElementType type_;
};

/// As tf.data's sample_from_datasets with its default: goes on until all inputs of weight above 0 have ended,
/// each keeps its order, and the draws differ in each epoch. Elements must be of one structure, kinds and
/// dtypes. Sequential, without a batch size; the cardinality, unknown in tf.data, is the sum.
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
    out << ')';
    return out.str();
  }
  std::vector<NodePtr> inputs() const override { return inputs_; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return sample_from_datasets(std::move(inputs), options_);
  }

  SpecPtr spec() const override { return common_spec(inputs_, kSampleFromDatasetsName); }

  /// The sum over the inputs of weight above 0, since all of their elements are drawn.
  std::int64_t cardinality() const override {
    std::int64_t sum = 0;
    bool unknown = false;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (weights()[i] == 0) continue;
      const std::int64_t here = inputs_[i]->cardinality();
      if (here == kInfiniteCardinality) return kInfiniteCardinality;
      unknown = unknown || here == kUnknownCardinality || __builtin_add_overflow(sum, here, &sum);
    }
    return unknown ? kUnknownCardinality : sum;
  }
  Traits traits() const override { return {.order = {.unseeded = !options_.seed.has_value()}}; }

  IteratorPtr iterate(const IterContext& context) const override {
    std::vector<IteratorPtr> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      inputs.push_back(open_iterator(inputs_[i], context.input(i)));
    return std::make_unique<SampleIterator>(std::move(inputs), weights(),
                                            context.key(options_.seed, /*every_epoch=*/true));
  }

 private:
  std::vector<double> weights() const {
    return options_.weights.empty() ? std::vector<double>(inputs_.size(), 1.0) : options_.weights;
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
