// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/index_plan.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "ops/ops.h"
#include "torch_distinput/error.h"

namespace torch_distinput::ops {
namespace {

/// Position p of the shard is position p * `num_shards` + `index` of the input.
class ShardPlan final : public IndexPlan {
 public:
  ShardPlan(PlanPtr input, std::int64_t num_shards, std::int64_t index)
      : IndexPlan(std::move(input)), num_shards_(num_shards), index_(index) {}

  std::int64_t size() const override {
    const std::int64_t all = input().size();
    if (all == kEndless) return kEndless;
    return all / num_shards_ + (index_ < all % num_shards_ ? 1 : 0);
  }
  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    return input().sampled(position == 0 ? 0 : (position - 1) * num_shards_ + index_ + 1);
  }

 private:
  void translate(std::span<std::int64_t> positions) const override {
    for (std::int64_t& position : positions) position = position * num_shards_ + index_;
  }

  std::int64_t num_shards_;
  std::int64_t index_;
};

/// The state is the input's, and the number of elements read from it.
class ShardIterator final : public Iterator {
 public:
  ShardIterator(IteratorPtr input, std::int64_t num_shards, std::int64_t index, bool require_non_empty)
      : input_(std::move(input)),
        num_shards_(num_shards),
        index_(index),
        require_non_empty_(require_non_empty) {}

  std::optional<Element> next() override {
    const bool first = consumed_ == 0;
    std::optional<Element> mine;
    do {
      mine = input_->next();
      if (!mine) return std::nullopt;
    } while (consumed_++ % num_shards_ != index_);
    if (first && require_non_empty_) finish_first_round();
    return mine;
  }

  State save() const override { return State().set("consumed", consumed_).set("input", input_->save()); }

  void load(const State& state) override {
    const StateReader saved(state, "shard");
    consumed_ = saved.count("consumed");
    input_->load(saved.at("input"));
  }

 private:
  /// Reads on until the input has yielded an element for each shard. Throws InvalidArgumentError if it ends
  /// before.
  void finish_first_round() {
    for (; consumed_ < num_shards_; ++consumed_) {
      if (input_->next()) continue;
      const std::string elements = std::to_string(consumed_);
      throw InvalidArgumentError("shard: Could not apply FILE based sharding: the dataset only has " +
                                 elements + " file(s), which is not enough for the required " +
                                 std::to_string(num_shards_) +
                                 " shards. Set the auto sharding policy to DATA or OFF, or split the data "
                                 "into at least as many files as there are ranks.");
    }
  }

  IteratorPtr input_;
  std::int64_t num_shards_;
  std::int64_t index_;
  bool require_non_empty_;
  std::int64_t consumed_ = 0;
};

/// As tf.data's shard: elements k with k mod `num_shards` == `index`, whole, so batches keep their size.
/// Random access if the input has it.
class ShardNode final : public UnaryNode {
 public:
  ShardNode(NodePtr input, std::int64_t num_shards, std::int64_t index, bool require_non_empty)
      : UnaryNode(std::move(input)),
        num_shards_(num_shards),
        index_(index),
        require_non_empty_(require_non_empty) {}

  std::string_view name() const override { return "shard"; }
  Traits traits() const override {
    return {
        .sharding = {.pass_through = true}, .rows = {.follows = Follows::kChosen}, .order = {.counts = true}};
  }
  std::string describe() const override {
    return "shard(num_shards=" + std::to_string(num_shards_) + ", index=" + std::to_string(index_) + ")";
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return shard(std::move(inputs.at(0)), num_shards_, index_, require_non_empty_);
  }

  std::int64_t cardinality() const override {
    const std::int64_t all = input().cardinality();
    return all < 0 ? all : all / num_shards_ + (index_ < all % num_shards_ ? 1 : 0);
  }

  PlanPtr plan(const IterContext& context) const override {
    PlanPtr all = input().plan(context.input(0));
    if (all == nullptr) return nullptr;
    // With too few elements there is no plan: the iterator throws the error at its first `next`.
    if (require_non_empty_ && index_ < all->size() && all->size() < num_shards_) return nullptr;
    return std::make_shared<ShardPlan>(std::move(all), num_shards_, index_);
  }

  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<ShardIterator>(open_iterator(input_ptr(), context.input(0)), num_shards_, index_,
                                           require_non_empty_);
  }

 private:
  std::int64_t num_shards_;
  std::int64_t index_;
  bool require_non_empty_;
};

/// `shard(SHARD_HINT, 0)` of tf.data: marks where policy HINT puts a shard. It cannot be read.
class ShardHintNode final : public UnaryNode {
 public:
  explicit ShardHintNode(NodePtr input) : UnaryNode(std::move(input)) {}

  std::string_view name() const override { return "shard"; }
  std::string describe() const override { return "shard(num_shards=SHARD_HINT, index=0)"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<ShardHintNode>(std::move(inputs.at(0)));
  }
  /// As recorded from tf.data, which divides by the marker, -1; batches after it divide the negative number.
  std::int64_t cardinality() const override {
    const std::int64_t all = input().cardinality();
    return all < 0 ? all : -all;
  }
  Traits traits() const override { return {.sharding = {.pass_through = true, .hint = true}}; }
  PlanPtr plan(const IterContext&) const override { refuse(); }
  IteratorPtr iterate(const IterContext&) const override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw FailedPreconditionError(
        "shard: `shard(SHARD_HINT, ...)` only marks where to shard; it can only be used with "
        "`distribute_dataset` and the auto-shard policy HINT.");
  }
};

}  // namespace

NodePtr shard(NodePtr input, std::int64_t num_shards, std::int64_t index, bool require_non_empty) {
  if (num_shards == kShardHint) return std::make_shared<ShardHintNode>(std::move(input));
  TORCH_CHECK_VALUE(num_shards >= 1, "shard: `num_shards` must be at least 1, but is ", num_shards, ".");
  TORCH_CHECK_VALUE(index >= 0 && index < num_shards, "shard: `index` must be in [0, ", num_shards,
                    "), but is ", index, ".");
  return std::make_shared<ShardNode>(std::move(input), num_shards, index, require_non_empty);
}

}  // namespace torch_distinput::ops
