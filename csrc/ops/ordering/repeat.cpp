// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/any_op.h"
#include "execution/draws_files.h"
#include "execution/index_plan.h"
#include "execution/open.h"
#include "execution/part_plan.h"
#include "execution/unary_node.h"
#include "execution/yields_batches.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr std::int64_t kUnlimited = -1;
/// The number of rounds whose plans are kept. Read-ahead spans few rounds; a shuffle after `repeat` spans
/// many.
constexpr std::size_t kRoundsKept = 8;

/// Returns whether the order of batches is drawn at random. Then rounds may differ in rows: a `take` of
/// shuffled batches may get a short batch in one round and not in another.
bool draws_batches(const Node& node) {
  return any_op(node, [](const Node& op) {
    const OrderTraits order = op.traits().order;
    return (order.random || order.mixes) && yields_batches(op);
  });
}

/// Each round is a part with a plan of its own, made when it is needed.
class RepeatPlan final : public PartPlan {
 public:
  RepeatPlan(NodePtr input, const IterContext& context, PlanPtr first, std::int64_t size)
      : input_(std::move(input)),
        context_(context),
        first_(std::move(first)),
        round_size_(first_->size()),
        size_(size),
        rounds_differ_(draws_batches(*input_)) {}

  std::int64_t size() const override { return size_; }
  PlanTraits traits() const override { return first_->traits(); }
  std::vector<const Plan*> inputs() const override { return {first_.get()}; }
  std::int64_t num_source_rows() const override { return first_->num_source_rows(); }
  SourceRow source_row(std::int64_t row) const override {
    TORCH_CHECK_VALUE(!draws_files(*input_),
                      "repeat: each round reads the files in an order of its own, so that "
                      "the number of a row does not tell its file; give the files in a fixed order.");
    return PartPlan::source_row(row);
  }
  const RowLayout* layout() const override { return first_->layout(); }
  bool knows_lengths(std::size_t leaf) const override { return first_->knows_lengths(leaf); }

  std::int64_t rows_before(std::int64_t position) const override {
    const Place place = locate(position);
    if (!rounds_differ_)
      return place.part * first_->rows_before(round_size_) + first_->rows_before(place.position);
    std::int64_t before = 0;
    {
      const std::lock_guard lock(totals_mutex_);
      while (static_cast<std::int64_t>(totals_.size()) <= place.part) {
        const auto round = static_cast<std::int64_t>(totals_.size()) - 1;
        totals_.push_back(totals_.back() + part(round)->rows_before(round_size_));
      }
      before = totals_[static_cast<std::size_t>(place.part)];
    }
    return place.position == 0 ? before : before + part(place.part)->rows_before(place.position);
  }

 private:
  Place locate(std::int64_t position) const override {
    return {position / round_size_, position % round_size_};
  }

  PlanPtr part(std::int64_t round) const override {
    if (round == 0) return first_;
    {
      const std::lock_guard lock(rounds_mutex_);
      for (const auto& [kept, plan] : rounds_) {
        if (kept == round) return plan;
      }
    }
    PlanPtr plan = input_->plan(context_.round(round).input(0));
    // A zip of shuffled batches may pair a short batch with a full one in some rounds only.
    TORCH_CHECK_VALUE(
        (plan->rows(0) == kUnknownRows) == (first_->rows(0) == kUnknownRows),
        "repeat: the leaves of each element must have equal numbers of rows in every round or in "
        "none, but round ",
        round, " of `", input_->describe(), "` differs from round 0 in that.");
    const std::lock_guard lock(rounds_mutex_);
    rounds_.emplace_front(round, plan);
    if (rounds_.size() > kRoundsKept) rounds_.pop_back();
    return plan;
  }

  /// Each round reads the same source.
  std::int64_t first_source_row(std::int64_t) const override { return 0; }

  NodePtr input_;
  IterContext context_;
  PlanPtr first_;
  std::int64_t round_size_;
  std::int64_t size_;
  bool rounds_differ_;  ///< rounds may differ in their number of rows

  mutable std::mutex rounds_mutex_;
  mutable std::deque<std::pair<std::int64_t, PlanPtr>> rounds_;
  mutable std::mutex totals_mutex_;
  mutable std::vector<std::int64_t> totals_{0};  ///< the rows before each round, as far as it is known
};

/// The state is the number of the round, and the input's state in it.
class RepeatIterator final : public Iterator {
 public:
  RepeatIterator(NodePtr input, const IterContext& context, std::int64_t count)
      : node_(std::move(input)), context_(context), count_(count) {}

  std::optional<Element> next() override {
    while (round_ != count_) {
      if (input_ == nullptr) open();
      if (std::optional<Element> element = input_->next()) {
        empty_ = false;
        return element;
      }
      // An endless repeat ends after an empty round, as in tf.data.
      if (empty_ && count_ == kUnlimited) return std::nullopt;
      input_.reset();
      empty_ = true;
      ++round_;
    }
    return std::nullopt;
  }

  State save() const override {
    return State()
        .set("round", round_)
        .set("empty", empty_)
        .set("input", input_ == nullptr ? State() : input_->save());
  }

  void load(const State& state) override {
    const StateReader saved(state, "repeat");
    round_ = saved.count("round", count_ == kUnlimited ? kMaxCounted : count_);
    empty_ = saved.flag("empty");
    input_.reset();
    const State& input = saved.at("input");
    if (input.is_null()) return;
    TORCH_CHECK_VALUE(round_ != count_, "repeat: the saved `round` must be below ", count_,
                      " if the saved `input` is not null, but is ", round_, ".");
    open();
    input_->load(input);
  }

 private:
  void open() { input_ = open_iterator(node_, context_.round(round_).input(0)); }

  NodePtr node_;
  IterContext context_;
  std::int64_t count_;
  IteratorPtr input_;  ///< null before the first element of a round
  std::int64_t round_ = 0;
  bool empty_ = true;  ///< the round has not yielded an element yet
};

/// As tf.data's repeat: every round reads the input again, with random orders of its own where ops reshuffle;
/// batches keep their size. Random access if the input has it, also without end.
class RepeatNode final : public UnaryNode {
 public:
  RepeatNode(NodePtr input, std::int64_t count) : UnaryNode(std::move(input)), count_(count) {}

  std::string_view name() const override { return "repeat"; }
  std::string describe() const override {
    return "repeat(count=" + (count_ == kUnlimited ? "None" : std::to_string(count_)) + ")";
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return repeat(std::move(inputs.at(0)), count_);
  }
  Traits traits() const override {
    return {.sharding = {.pass_through = true},
            .rows = {.follows = Follows::kChosen},
            .order = {.permutes = true}};
  }

  std::int64_t cardinality() const override {
    const std::int64_t round = input().cardinality();
    if (count_ == 0 || round == 0) return 0;
    if (count_ == kUnlimited) return kInfiniteCardinality;
    std::int64_t all = 0;
    if (round > 0 && __builtin_mul_overflow(round, count_, &all)) return kInfiniteCardinality;
    return round < 0 ? round : all;
  }

  /// None where rounds may differ in their number of elements.
  PlanPtr plan(const IterContext& context) const override {
    PlanPtr first = input().plan(context.round(0).input(0));
    if (first == nullptr || input().cardinality() == kUnknownCardinality) return nullptr;
    const std::int64_t size = size_of_rounds(first->size());
    if (size == 0) return slice_plan(std::move(first), 0, 0);
    return std::make_shared<RepeatPlan>(input_ptr(), context, std::move(first), size);
  }

  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<RepeatIterator>(input_ptr(), context, count_);
  }

 private:
  std::int64_t size_of_rounds(std::int64_t round) const {
    if (count_ == 0 || round == 0) return 0;
    std::int64_t all = 0;
    const bool endless = count_ == kUnlimited || __builtin_mul_overflow(round, count_, &all);
    return endless ? kEndless : all;
  }

  std::int64_t count_;
};

}  // namespace

NodePtr repeat(NodePtr input, std::optional<std::int64_t> count) {
  const std::int64_t rounds = count.value_or(kUnlimited);
  TORCH_CHECK_VALUE(rounds >= 0 || rounds == kUnlimited,
                    "repeat: `count` must be at least 0, or None or -1 to repeat without end, but is ",
                    rounds, ".");
  return std::make_shared<RepeatNode>(std::move(input), rounds);
}

}  // namespace torch_distinput::ops
