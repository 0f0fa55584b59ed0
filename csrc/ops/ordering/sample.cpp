// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "base/hash.h"
#include "core/state_reader.h"
#include "execution/execution_context.h"
#include "execution/index_plan.h"
#include "execution/open.h"
#include "execution/reads_whole.h"
#include "execution/unary_node.h"
#include "ops/ops.h"
#include "runtime/alias_table.h"
#include "runtime/weighted_order.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kSampleName = "sample";

/// The rows drawn in one epoch. Immutable; safe from any thread.
class EpochDraws {
 public:
  virtual ~EpochDraws() = default;
  /// Replaces the number of each draw by the row drawn.
  virtual void apply(std::span<std::int64_t> numbers) const = 0;
};
using EpochDrawsPtr = std::shared_ptr<const EpochDraws>;

class DrawsWithReplacement final : public EpochDraws {
 public:
  DrawsWithReplacement(std::shared_ptr<const AliasTable> table, std::uint64_t key)
      : table_(std::move(table)), key_(key) {}

  void apply(std::span<std::int64_t> numbers) const override {
    for (std::int64_t& number : numbers) number = table_->draw(key_, static_cast<std::uint64_t>(number));
  }

 private:
  std::shared_ptr<const AliasTable> table_;
  std::uint64_t key_;
};

/// Orders the rows when the first draw is asked for.
class DrawsWithoutReplacement final : public EpochDraws {
 public:
  DrawsWithoutReplacement(std::shared_ptr<const std::vector<double>> weights, std::int64_t count,
                          std::uint64_t key)
      : weights_(std::move(weights)), count_(count), key_(key) {}

  void apply(std::span<std::int64_t> numbers) const override {
    std::call_once(ordered_, [this] { order_ = weighted_order(*weights_, count_, key_); });
    for (std::int64_t& number : numbers) number = order_[static_cast<std::size_t>(number)];
  }

 private:
  std::shared_ptr<const std::vector<double>> weights_;
  std::int64_t count_;
  std::uint64_t key_;
  mutable std::once_flag ordered_;
  mutable std::vector<std::int64_t> order_;
};

/// What all epochs share: a table with replacement, else the weights. Safe from any thread.
class Sampler {
 public:
  Sampler(std::vector<double> weights, std::int64_t num_samples, bool replacement)
      : size_(std::ssize(weights)), num_samples_(num_samples) {
    Hash hash;
    for (const double weight : weights) hash.add_word(std::bit_cast<std::uint64_t>(weight));
    hash_ = hash.value();
    if (replacement) {
      table_ = std::make_shared<const AliasTable>(weights);
    } else {
      weights_ = std::make_shared<const std::vector<double>>(std::move(weights));
    }
  }

  std::int64_t size() const { return size_; }
  std::int64_t num_samples() const { return num_samples_; }
  bool replacement() const { return table_ != nullptr; }
  std::uint64_t hash() const { return hash_; }

  /// The draws of the epoch that `key` stands for. Plans of the same epoch share one order.
  EpochDrawsPtr draws(std::uint64_t key) const {
    if (table_ != nullptr) return std::make_shared<DrawsWithReplacement>(table_, key);
    const std::lock_guard lock(mutex_);
    EpochDrawsPtr found = last_key_ == key ? last_.lock() : nullptr;
    if (found == nullptr) {
      found = std::make_shared<DrawsWithoutReplacement>(weights_, num_samples_, key);
      last_ = found;
      last_key_ = key;
    }
    return found;
  }

 private:
  std::int64_t size_;
  std::int64_t num_samples_;
  std::uint64_t hash_ = 0;
  std::shared_ptr<const AliasTable> table_;             ///< null without replacement
  std::shared_ptr<const std::vector<double>> weights_;  ///< null with replacement
  mutable std::mutex mutex_;
  mutable std::uint64_t last_key_ = 0;
  mutable std::weak_ptr<const EpochDraws> last_;
};
using SamplerPtr = std::shared_ptr<const Sampler>;

/// Replaces the number of a draw by the row drawn.
class SamplePlan final : public IndexPlan {
 public:
  SamplePlan(PlanPtr input, EpochDrawsPtr draws, std::int64_t num_samples)
      : IndexPlan(std::move(input)), draws_(std::move(draws)), num_samples_(num_samples) {}
  std::int64_t size() const override { return num_samples_; }

 private:
  void translate(std::span<std::int64_t> positions) const override { draws_->apply(positions); }

  EpochDrawsPtr draws_;
  std::int64_t num_samples_;
};

/// The same draws of elements that are read in order, and all kept. For tests of the sequential path. The
/// state is the number of draws handed out.
class SampleRowsIterator final : public Iterator {
 public:
  SampleRowsIterator(IteratorPtr input, EpochDrawsPtr draws, std::int64_t num_samples)
      : input_(std::move(input)), draws_(std::move(draws)), num_samples_(num_samples) {}

  std::optional<Element> next() override {
    if (position_ == num_samples_) return std::nullopt;
    std::int64_t row = position_++;
    draws_->apply({&row, 1});
    while (std::ssize(elements_) <= row) elements_.push_back(input_->next().value());
    return elements_[static_cast<std::size_t>(row)];
  }

  State save() const override { return State().set("position", position_); }
  void load(const State& state) override {
    position_ = StateReader(state, kSampleName).count("position", num_samples_);
  }

 private:
  IteratorPtr input_;
  EpochDrawsPtr draws_;
  std::int64_t num_samples_;
  std::vector<Element> elements_;
  std::int64_t position_ = 0;
};

/// In the place of torch's WeightedRandomSampler: element k is a draw that depends on seed, epoch and k only,
/// so random access and state are O(1). Batches keep their size. Needs random access.
class SampleRowsNode final : public UnaryNode {
 public:
  SampleRowsNode(NodePtr input, SamplerPtr sampler, std::optional<std::int64_t> seed)
      : UnaryNode(std::move(input)), sampler_(std::move(sampler)), seed_(seed) {
    const std::int64_t length = this->input().cardinality();
    TORCH_CHECK_VALUE(length >= 0, "sample: drawing needs a known number of elements, but that of `",
                      this->input().describe(), "` is ",
                      length == kInfiniteCardinality ? "infinite" : "unknown",
                      "; sample before it, or use `sample_from_datasets`.");
    TORCH_CHECK_VALUE(sampler_->size() == length, "sample: `weights` must have one entry for each of the ",
                      length, " elements, but has ", sampler_->size(), ".");
  }

  std::string_view name() const override { return kSampleName; }
  std::string describe() const override {
    std::string text =
        c10::str("sample(weights of ", sampler_->size(), " elements, num_samples=", sampler_->num_samples());
    text += std::string(", replacement=") + (sampler_->replacement() ? "True" : "False");
    return text + ", seed=" + (seed_ ? std::to_string(*seed_) : "None") + ")";
  }
  /// With a hash of the weights, so that other weights are another pipeline.
  std::string identity() const override {
    std::ostringstream text;
    text << describe() << ", hash=" << std::hex << sampler_->hash();
    return text.str();
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<SampleRowsNode>(std::move(inputs.at(0)), sampler_, seed_);
  }

  std::int64_t cardinality() const override { return sampler_->num_samples(); }
  /// Not pass-through: weights belong to the elements of the whole input, so files must not be sharded before
  /// it.
  Traits traits() const override {
    return {.rows = {.follows = Follows::kChosen}, .order = {.random = true, .unseeded = !seed_.has_value()}};
  }
  LastNormalizationPtr last_normalization() const override { return input().last_normalization(); }

  PlanPtr plan(const IterContext& context) const override {
    PlanPtr rows = input().plan(context.input(0));
    return rows == nullptr ? nullptr : sampled(std::move(rows), context);
  }

  IteratorPtr iterate(const IterContext& context) const override {
    const IterContext below = context.input(0);
    if (context.execution->options.skip) {
      if (PlanPtr rows = plan_with_failures(input(), below))
        return skipping_iterator(sampled(std::move(rows), context), context, kSampleName, input().describe());
    }
    if (!context.stream_only || input().plan(below) == nullptr)
      refuse_stream("sample: drawing", input(), below, "sample before it, or use `sample_from_datasets`");
    return std::make_unique<SampleRowsIterator>(open_iterator(input_ptr(), below), draws(context),
                                                sampler_->num_samples());
  }

 private:
  EpochDrawsPtr draws(const IterContext& context) const {
    return sampler_->draws(context.key(seed_, /*every_epoch=*/true));
  }
  PlanPtr sampled(PlanPtr rows, const IterContext& context) const {
    TORCH_CHECK_VALUE(rows->size() == sampler_->size(), "sample: `weights` has ", sampler_->size(),
                      " entries, but there are ", rows->size(), " elements by now.");
    return std::make_shared<SamplePlan>(std::move(rows), draws(context), sampler_->num_samples());
  }

  SamplerPtr sampler_;
  std::optional<std::int64_t> seed_;
};

/// A copy of the weights, so that no later write to them changes the draws.
std::vector<double> checked_weights(const at::Tensor& weights) {
  TORCH_CHECK_TYPE(weights.dim() == 1 && !weights.is_complex() && weights.layout() == at::kStrided,
                   "sample: `weights` must be real numbers in a tensor of one dimension, but has ",
                   weights.dim(), " of ", weights.scalar_type(), ".");
  const at::Tensor plain = weights.detach().to(at::kCPU, at::kDouble).contiguous();
  const auto* const first = plain.const_data_ptr<double>();
  std::vector<double> copy(first, first + plain.numel());
  bool some = false;
  for (std::size_t i = 0; i < copy.size(); ++i) {
    TORCH_CHECK_VALUE(std::isfinite(copy[i]) && copy[i] >= 0,
                      "sample: `weights` must be finite and at least 0, but entry ", i, " is ", copy[i], ".");
    some = some || copy[i] > 0;
  }
  TORCH_CHECK_VALUE(some || copy.empty(), "sample: `weights` must not all be 0.");
  return copy;
}

}  // namespace

NodePtr sample(NodePtr input, const at::Tensor& weights, std::int64_t num_samples, DrawOptions options) {
  TORCH_CHECK_VALUE(num_samples >= 1, "sample: `num_samples` must be at least 1, but is ", num_samples, ".");
  std::vector<double> copy = checked_weights(weights);
  TORCH_CHECK_VALUE(!copy.empty(), "sample: there must be an element to draw, but `weights` has no entries.");
  if (!options.replacement) {
    const auto drawable = std::count_if(copy.begin(), copy.end(), [](double weight) { return weight > 0; });
    TORCH_CHECK_VALUE(num_samples <= drawable,
                      "sample: `num_samples` without replacement must be at most the number of weights "
                      "above 0, which is ",
                      drawable, ", but is ", num_samples, ".");
  }
  auto sampler = std::make_shared<const Sampler>(std::move(copy), num_samples, options.replacement);
  return std::make_shared<SampleRowsNode>(std::move(input), std::move(sampler), options.seed);
}

}  // namespace torch_distinput::ops
