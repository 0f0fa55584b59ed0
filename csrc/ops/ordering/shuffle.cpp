// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "execution/execution_context.h"
#include "execution/index_plan.h"
#include "execution/open.h"
#include "execution/reads_whole.h"
#include "execution/unary_node.h"
#include "ops/ops.h"
#include "ops/ordering/block_shuffle.h"
#include "ops/ordering/shuffle_iterators.h"
#include "runtime/permutation.h"

namespace torch_distinput::ops {
namespace {

constexpr std::int64_t kWidestWindow = std::int64_t{1} << 61;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;

/// Maps positions through `Order`, a keyed permutation.
template <class Order>
class ShufflePlan final : public IndexPlan {
 public:
  ShufflePlan(PlanPtr input, Order order) : IndexPlan(std::move(input)), order_(std::move(order)) {}
  std::int64_t size() const override { return input().size(); }
  /// Of as many elements in the order before: those of a window stay close to each other.
  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    if constexpr (std::is_same_v<Order, WindowedPermutation>) return input().sampled(position);
    return {};
  }

 private:
  void translate(std::span<std::int64_t> positions) const override { order_.apply(positions); }

  Order order_;
};

/// A full shuffle of `rows`.
PlanPtr shuffled(PlanPtr rows, std::uint64_t key) {
  const std::int64_t size = std::min(rows->size(), kMaxElements);
  return std::make_shared<ShufflePlan<Permutation>>(std::move(rows), Permutation(size, key));
}

std::string none_or(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "None";
}

/// In the place of tf.data's shuffle: the order is a keyed permutation of all positions, or of overlapping
/// windows of `buffer_size`, a pure function of seed, epoch and position, so random access and state are
/// O(1). Elements stay whole, so batches keep their size. `reshuffle_each_iteration` means what it means in
/// tf.data.
class ShuffleNode final : public UnaryNode {
 public:
  ShuffleNode(NodePtr input, ShuffleOptions options) : UnaryNode(std::move(input)), options_(options) {}

  std::string_view name() const override { return "shuffle"; }
  std::string describe() const override {
    return "shuffle(buffer_size=" + none_or(options_.buffer_size) + ", seed=" + none_or(options_.seed) +
           ", reshuffle_each_iteration=" + (options_.reshuffle_each_iteration ? "True" : "False") + ")";
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return shuffle(std::move(inputs.at(0)), options_);
  }

  Traits traits() const override {
    return {.sharding = {.pass_through = true},
            .rows = {.follows = Follows::kChosen},
            .order = {.random = true,
                      .unseeded = !options_.seed.has_value(),
                      .permutes = true,
                      .fixed = options_.seed.has_value() && !options_.reshuffle_each_iteration}};
  }

  PlanPtr plan(const IterContext& context) const override {
    PlanPtr rows = input().plan(context.input(0));
    if (rows == nullptr) return nullptr;
    if (options_.buffer_size) {
      const std::int64_t size = std::min(rows->size(), kMaxElements);
      return std::make_shared<ShufflePlan<WindowedPermutation>>(
          std::move(rows), WindowedPermutation(size, window(), key(context)));
    }
    return shuffled(std::move(rows), key(context));
  }

  IteratorPtr iterate(const IterContext& context) const override {
    const IterContext below = context.input(0);
    if (options_.buffer_size) {
      return windowed_shuffle_iterator(open_iterator(input_ptr(), below), window(), key(context));
    }
    if (context.execution->options.skip) {
      if (PlanPtr rows = plan_with_failures(input(), below))
        return skipping_iterator(shuffled(std::move(rows), key(context)), context, name(),
                                 input().describe());
    }
    if (!context.stream_only && input().plan(below) == nullptr)
      refuse_stream("shuffle: a full shuffle", input(), below, "give `buffer_size`, or shuffle before it");
    return buffered_shuffle_iterator(input_ptr(), below, [key = key(context)](std::int64_t size) {
      std::vector<std::int64_t> order(static_cast<std::size_t>(size));
      std::iota(order.begin(), order.end(), std::int64_t{0});
      Permutation(size, key).apply(order);
      return order;
    });
  }

 private:
  std::int64_t window() const { return std::min(*options_.buffer_size, kWidestWindow); }
  std::uint64_t key(const IterContext& context) const {
    return context.key(options_.seed, options_.reshuffle_each_iteration);
  }

  ShuffleOptions options_;
};

}  // namespace

NodePtr shuffle(NodePtr input, ShuffleOptions options) {
  if (options.blocks) return block_shuffle(std::move(input), options);
  TORCH_CHECK_VALUE(!options.buffer_size || *options.buffer_size >= 1,
                    "shuffle: `buffer_size` must be at least 1, or None for a full shuffle, but is ",
                    options.buffer_size.value_or(0), ".");
  if (!options.buffer_size) {
    const std::int64_t length = input->cardinality();
    const bool endless = length == kInfiniteCardinality;
    TORCH_CHECK_VALUE(length >= 0, "shuffle: a full shuffle needs a known length, but that of `",
                      input->describe(), "` is ", endless ? "infinite" : "unknown", "; give `buffer_size`",
                      endless ? "." : ", or tell the length by `assert_cardinality`.");
  }
  return std::make_shared<ShuffleNode>(std::move(input), options);
}

}  // namespace torch_distinput::ops
