// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/ordering/block_shuffle.h"

#include <algorithm>
#include <iomanip>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "execution/execution_context.h"
#include "execution/index_plan.h"
#include "execution/open.h"
#include "execution/plan_iterator.h"
#include "execution/reads_whole.h"
#include "execution/row_lanes.h"
#include "execution/scalars_plan.h"
#include "execution/tells_facts.h"
#include "execution/unary_node.h"
#include "ops/ordering/shuffle_iterators.h"
#include "runtime/lane_order.h"

namespace torch_distinput::ops {
namespace {

using LaneOrderPtr = std::shared_ptr<const LaneOrder>;

/// Maps positions through an order by lanes.
class BlockShufflePlan final : public IndexPlan {
 public:
  BlockShufflePlan(PlanPtr input, LaneOrderPtr order)
      : IndexPlan(std::move(input)), order_(std::move(order)) {}
  std::int64_t size() const override { return order_->size(); }
  PlanTraits traits() const override {
    PlanTraits traits = IndexPlan::traits();
    traits.together = std::max(traits.together, kRowsOfALane * order_->lanes());
    return traits;
  }

 private:
  /// So many are found at a time for much less than one by one.
  static constexpr std::int64_t kRowsOfALane = 32;

  void translate(std::span<std::int64_t> positions) const override { order_->apply(positions); }

  LaneOrderPtr order_;
};

/// The lanes of the rows of a shuffle.
class LanesPlan final : public ScalarsPlan<double> {
 public:
  LanesPlan(PlanPtr rows, LaneOrderPtr order, std::shared_ptr<BufferPool> pool)
      : ScalarsPlan(order->size(), std::move(pool)), rows_(std::move(rows)), order_(std::move(order)) {}

  std::vector<const Plan*> inputs() const override { return {rows_.get()}; }
  std::int64_t num_source_rows() const override { return rows_->num_source_rows(); }
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const override {
    order_->apply(positions);
    rows_->source_rows(positions, rows);
  }

 private:
  void find(std::span<std::int64_t> positions, std::span<double> values) const override {
    order_->apply_lanes(positions);
    std::copy(positions.begin(), positions.end(), values.begin());
  }

  PlanPtr rows_;  ///< before the shuffle
  LaneOrderPtr order_;
};

/// The order of the elements of an op, from its input and its context.
struct BlockOrder {
  std::int64_t window;
  std::optional<std::int64_t> seed;
  bool every_epoch;

  LaneOrderPtr of(const Plan& rows, const IterContext& context) const {
    const LaneOrder::Keys keys{context.key(seed, /*every_epoch=*/false), context.key(seed, every_epoch)};
    return std::make_shared<LaneOrder>(rows.block_starts(), window, keys);
  }
};

/// The lanes of the elements of a shuffle with the same input.
class LanesNode final : public UnaryNode {
 public:
  LanesNode(NodePtr input, const BlockOrder& order) : UnaryNode(std::move(input)), order_(order) {}

  std::string_view name() const override { return "lanes"; }
  std::string describe() const override { return "lanes()"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<LanesNode>(std::move(inputs.at(0)), order_);
  }
  SpecPtr spec() const override {
    return std::make_shared<const ElementSpec>(
        ElementSpec{Structure::leaf(), {TensorSpec{Dims{}, at::kDouble}}});
  }
  PlanPtr plan(const IterContext& context) const override {
    PlanPtr rows = input().plan(context.input(0));
    if (rows == nullptr) return nullptr;
    LaneOrderPtr order = order_.of(*rows, context);
    return std::make_shared<LanesPlan>(std::move(rows), std::move(order), context.execution->pool);
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return make_plan_iterator(plan(context), context.execution);
  }

 private:
  BlockOrder order_;
};

/// In the place of tf.data's shuffle over files that are read in pieces: the rows of a block stay close to
/// one another, in an order that is a pure function of seed, epoch, position and the blocks of the input.
class BlockShuffleNode final : public UnaryNode, public OrdersByLanes, public TellsFacts {
 public:
  BlockShuffleNode(NodePtr input, const ShuffleOptions& options)
      : UnaryNode(std::move(input)),
        options_(options),
        order_{*options.blocks, options.seed, options.reshuffle_each_iteration} {}

  std::string_view name() const override { return "shuffle"; }
  std::string describe() const override {
    return "shuffle(blocks=" + std::to_string(order_.window) +
           ", seed=" + (order_.seed ? std::to_string(*order_.seed) : "None") +
           ", reshuffle_each_iteration=" + (order_.every_epoch ? "True" : "False") + ")";
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return block_shuffle(std::move(inputs.at(0)), options_);
  }

  Traits traits() const override {
    return {.sharding = {.pass_through = true},
            .rows = {.follows = Follows::kChosen},
            .order = {.random = true,
                      .unseeded = !order_.seed.has_value(),
                      .permutes = true,
                      .fixed = order_.seed.has_value() && !order_.every_epoch}};
  }

  PlanPtr plan(const IterContext& context) const override {
    return shuffled(input().plan(context.input(0)), context);
  }

  IteratorPtr iterate(const IterContext& context) const override {
    const IterContext below = context.input(0);
    if (context.execution->options.skip) {
      if (PlanPtr rows = plan_with_failures(input(), below))
        return skipping_iterator(shuffled(std::move(rows), context), context, name(), input().describe());
    }
    const PlanPtr rows = input().plan(below);
    if (rows == nullptr)
      refuse_stream("shuffle: a shuffle of blocks", input(), below,
                    "give `buffer_size`, or shuffle before it");
    return buffered_shuffle_iterator(input_ptr(), below,
                                     [order = order_.of(*rows, context)](std::int64_t size) {
                                       TORCH_CHECK_VALUE(size == order->size(), "shuffle: the input has ",
                                                         size, " elements, but said ", order->size(), ".");
                                       std::vector<std::int64_t> all(static_cast<std::size_t>(size));
                                       std::iota(all.begin(), all.end(), std::int64_t{0});
                                       order->apply(all);
                                       return all;
                                     });
  }

  NodePtr lanes() const override { return std::make_shared<LanesNode>(input_ptr(), order_); }

  LaneOrderPtr lane_order(const IterContext& context) const override {
    const PlanPtr rows = input().plan(context.input(0));
    return rows == nullptr ? nullptr : order_.of(*rows, context);
  }

  std::string facts(const IterContext& context) const override {
    const PlanPtr rows = input().plan(context.input(0));
    if (rows == nullptr || rows->size() == 0) return "";
    const LaneOrderPtr order = order_.of(*rows, context);
    return text_of(*order, rows->least_bytes());
  }

 private:
  PlanPtr shuffled(PlanPtr rows, const IterContext& context) const {
    if (rows == nullptr) return nullptr;
    LaneOrderPtr order = order_.of(*rows, context);
    rows->keep_blocks(order->blocks_to_keep());
    return std::make_shared<BlockShufflePlan>(std::move(rows), std::move(order));
  }

  std::string text_of(const LaneOrder& order, std::int64_t row_bytes) const {
    const std::int64_t in_use = order.blocks_in_use();
    const std::int64_t kept = order.blocks_to_keep();
    const double mean = static_cast<double>(order.size()) / static_cast<double>(order.blocks());
    const double moved = std::min(1.0, static_cast<double>(in_use) / static_cast<double>(order.blocks()));
    std::ostringstream out;
    out << std::fixed << std::setprecision(1) << order.blocks() << " blocks of " << mean << " rows in "
        << order.lanes() << " lanes, windows of " << order_.window << " blocks; about " << in_use
        << " blocks are in use at a time, " << kept << " are kept";
    if (row_bytes > 0) {
      const double bytes = static_cast<double>(kept) * mean * static_cast<double>(row_bytes);
      out << " (" << bytes / (1 << 20) << " MiB over all nodes)";
    }
    out << "; the rows of a block come within " << 100 * moved
        << " % of an epoch; where blocks have one class each, the variance of class counts in batches of B "
           "rows is at most 1 + B/"
        << 2 * order.lanes() * order_.window << " times that after a full shuffle";
    return out.str();
  }

  ShuffleOptions options_;
  BlockOrder order_;
};

}  // namespace

NodePtr block_shuffle(NodePtr input, ShuffleOptions options) {
  TORCH_CHECK_VALUE(*options.blocks >= 1, "shuffle: `blocks` must be at least 1, but is ", *options.blocks,
                    ".");
  TORCH_CHECK_VALUE(!options.buffer_size, "shuffle: `blocks` and `buffer_size` exclude each other, but are ",
                    *options.blocks, " and ", options.buffer_size.value_or(0), ".");
  const std::int64_t length = input->cardinality();
  const bool endless = length == kInfiniteCardinality;
  TORCH_CHECK_VALUE(length >= 0, "shuffle: a shuffle of blocks needs a known length, but that of `",
                    input->describe(), "` is ", endless ? "infinite" : "unknown", "; give `buffer_size`",
                    endless ? "." : ", or tell the length by `assert_cardinality`.");
  return std::make_shared<BlockShuffleNode>(std::move(input), options);
}

}  // namespace torch_distinput::ops
