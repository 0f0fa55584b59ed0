// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/interrupt_poll.h"
#include "core/state_reader.h"
#include "execution/batch_reader.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/reads_whole.h"
#include "execution/rebased.h"
#include "execution/row_costs.h"
#include "execution/skip_budget.h"
#include "execution/unary_node.h"
#include "ops/batching/cost_windows.h"
#include "ops/batching/padding.h"
#include "ops/batching/row_batches_plan.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kBatchByCostName = "batch_by_cost";
/// The places of rows in a window are numbers of 32 bits.
constexpr std::int64_t kWidestCostWindow = std::int64_t{1} << 30;

class CostBatchPlan final : public RowBatchesPlan {
 public:
  CostBatchPlan(PlanPtr input, JoinRows join, std::shared_ptr<BufferPool> pool,
                std::unique_ptr<const CostWindows> windows)
      : RowBatchesPlan(std::move(input), std::move(join), std::move(pool)), windows_(std::move(windows)) {}

  std::int64_t size() const override { return windows_->count(); }
  PlanTraits traits() const override {
    PlanTraits traits = input().traits();
    traits.read_ahead = std::min<std::int64_t>(traits.read_ahead, 1);
    return traits;
  }
  std::int64_t least_bytes() const override { return input().least_bytes(); }
  std::int64_t rows(std::int64_t position) const override {
    const auto place = windows_->find(position);
    return std::ssize(place.batches->rows_of(place.batch));
  }
  std::int64_t rows_before(std::int64_t position) const override { return windows_->rows_before(position); }

 private:
  void append(std::vector<std::int64_t>& positions, const Segment& segment) const override {
    const auto place = windows_->find(segment.element);
    const auto rows = place.batches->rows_of(place.batch);
    for (std::int64_t row = segment.begin; row < segment.end; ++row)
      positions.push_back(place.first_row + rows[static_cast<std::size_t>(row)]);
  }

  std::unique_ptr<const CostWindows> windows_;
};

/// The cost of the next row, which is number `number`.
using CostOfElement = std::function<double(const Element& row, std::int64_t number)>;

/// Reads a window of rows and hands out its batches. The state holds no rows: it has the input's state before
/// the window, and the number of batches handed out.
class CostBatchIterator final : public Iterator {
 public:
  CostBatchIterator(IteratorPtr input, CostRules rules, CostOfElement cost_of, JoinRows join,
                    const IterContext& context)
      : input_(std::move(input)),
        rules_(rules),
        cost_of_(std::move(cost_of)),
        join_(std::move(join)),
        pool_(context.execution->pool),
        budget_(context, kBatchByCostName) {}

  std::optional<Element> next() override {
    while (handed_out_ == batches_.count()) {
      if (!read_window()) return std::nullopt;
    }
    std::vector<Element> rows;
    for (const std::int32_t row : batches_.rows_of(handed_out_))
      rows.push_back(std::move(rows_[static_cast<std::size_t>(row)]));
    ++handed_out_;
    return join_(rows, *pool_);
  }

  State save() const override {
    const bool in_window = handed_out_ < batches_.count();
    return State()
        .set("input", in_window ? before_ : input_->save())
        .set("read", in_window ? first_ : read_)
        .set("batches", in_window ? handed_out_ : 0)
        .set("skip", in_window ? skipped_before_ : budget_.save());
  }

  /// Reads the window again and puts it into batches again.
  void load(const State& state) override {
    const StateReader saved(state, kBatchByCostName);
    const std::int64_t batches = saved.count("batches");
    const std::int64_t read = saved.count("read");
    budget_.load(saved.at("skip"));
    input_->load(saved.at("input"));
    forget();
    read_ = read;
    if (batches == 0) return;
    read_window();
    TORCH_CHECK_VALUE(batches < batches_.count(), kBatchByCostName, ": the saved position is after batch ",
                      batches, " of a window, but the window has ", batches_.count(), " batches.");
    handed_out_ = batches;
  }

 private:
  void forget() {
    rows_.clear();
    numbers_.clear();
    batches_ = {};
    handed_out_ = 0;
  }

  /// Returns false at the end of the input.
  bool read_window() {
    forget();
    before_ = input_->save();
    skipped_before_ = budget_.save();
    first_ = read_;
    std::vector<double> costs;
    InterruptPoll poll;
    while (read_ - first_ < rules_.window) {
      poll();
      std::optional<Element> row = input_->next();
      if (!row) break;
      const std::int64_t number = read_++;
      const std::optional<double> cost = cost_within_budget(*row, number);
      if (!cost) continue;
      costs.push_back(*cost);
      rows_.push_back(std::move(*row));
      numbers_.push_back(number);
    }
    if (read_ == first_) budget_.end();
    batches_ = batches_of_window(
        costs, rules_, [&](std::int64_t place) { return numbers_[static_cast<std::size_t>(place)]; });
    return read_ > first_;
  }

  /// nullopt if the row fails and is skipped.
  std::optional<double> cost_within_budget(const Element& row, std::int64_t number) {
    try {
      const double cost = cost_of_(row, number);
      batches_of_window({cost}, rules_, [&](std::int64_t) { return number; });
      budget_.pass();
      return cost;
    } catch (...) {
      budget_.fail();
    }
    return std::nullopt;
  }

  IteratorPtr input_;
  CostRules rules_;
  CostOfElement cost_of_;
  JoinRows join_;
  std::shared_ptr<BufferPool> pool_;
  State before_;                       ///< the input's position before the window
  State skipped_before_;               ///< the rows skipped before the window
  std::int64_t first_ = 0;             ///< the first row of the window
  std::int64_t read_ = 0;              ///< rows read
  std::vector<Element> rows_;          ///< of the window
  std::vector<std::int64_t> numbers_;  ///< of these rows
  CostBatches batches_;                ///< of the window
  std::int64_t handed_out_ = 0;
  SkipBudget budget_;
};

/// Padded batches of rows of similar cost, whose costs add up to at most the budget, within windows of rows.
/// Not in tf.data. Batches have no single size, and their number is unknown before they are made. Random
/// access if the input has it and the costs are known without reading rows; a position is then a number of
/// batches.
class BatchByCostNode final : public UnaryNode, public StacksRows {
 public:
  BatchByCostNode(NodePtr input, std::shared_ptr<const RowCosts> costs, CostRules rules,
                  std::shared_ptr<const Padding> padding)
      : UnaryNode(std::move(input)), costs_(std::move(costs)), rules_(rules), padding_(std::move(padding)) {
    if (costs_->known()) costs_->check(input_ptr());
    if (const SpecPtr rows = quiet_spec(this->input())) padding_->of(*rows);
  }

  std::string_view name() const override { return kBatchByCostName; }
  std::string describe() const override { return call(costs_->describe()); }
  std::string identity() const override { return call(costs_->identity()); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<BatchByCostNode>(std::move(inputs.at(0)), costs_, rules_, padding_);
  }
  NodePtr stacked(NodePtr rows) const override {
    return std::make_shared<BatchByCostNode>(
        std::move(rows), costs_, rules_,
        std::make_shared<const Padding>(std::nullopt, std::nullopt, kBatchByCostName));
  }

  SpecPtr spec() const override {
    const SpecPtr rows = input().spec();
    if (rows == nullptr) return nullptr;
    return std::make_shared<const ElementSpec>(padding_->batch_spec(*rows, kUnknownDim));
  }
  std::int64_t cardinality() const override {
    const std::int64_t rows = input().cardinality();
    return rows == kInfiniteCardinality || rows == 0 ? rows : kUnknownCardinality;
  }
  std::optional<std::int64_t> batch_size() const override { return std::nullopt; }
  std::vector<const UserCode*> user_code() const override {
    if (costs_->function() == nullptr) return {};
    return {costs_->function()};
  }
  /// Not pass-through: costs belong to the rows of the whole input, so files must not be sharded before it.
  Traits traits() const override { return {.rows = {.fallible = !costs_->known(), .batches = true}}; }

  PlanPtr plan(const IterContext& context) const override {
    if (!costs_->known()) return nullptr;
    PlanPtr rows = input().plan(context.input(0));
    if (rows == nullptr) return nullptr;
    JoinRows join = rows->layout() == nullptr || padding_->has_shapes() ? pads() : stacks();
    return std::make_shared<CostBatchPlan>(
        std::move(rows), std::move(join), context.execution->pool,
        std::make_unique<const CostWindows>(plan_of_costs(context), rules_, row_number(context)));
  }

  IteratorPtr iterate(const IterContext& context) const override {
    const IterContext below = context.input(0);
    if (costs_->known() && input().plan(below) == nullptr)
      refuse_stream("batch_by_cost: a tensor of costs", input(), below,
                    "give the name of a column, or a function");
    return std::make_unique<CostBatchIterator>(open_iterator(input_ptr(), below), rules_,
                                               cost_of_element(context), pads(), context);
  }

 private:
  std::string call(const std::string& cost) const {
    return c10::str(kBatchByCostName, "(", cost, ", budget=", rules_.budget, ", window=", rules_.window,
                    padding_->describe(), ")");
  }

  JoinRows pads() const { return padding_rows(padding_, kBatchByCostName); }
  static JoinRows stacks() {
    const auto stack = [](std::span<const Element> rows, BufferPool& pool) {
      return stack_rows(rows, pool, kBatchByCostName);
    };
    return {.join = stack, .stacks = true};
  }

  PlanPtr plan_of_costs(const IterContext& context) const {
    return costs_->in_place_of(input_ptr())->plan(context.input(0));
  }
  std::function<std::int64_t(std::int64_t)> row_number(const IterContext& context) const {
    return [costs = costs_, rows = input_ptr(), below = context.input(0)](std::int64_t position) {
      const PlanPtr numbers = costs->numbers_in_place_of(rows)->plan(below);
      return gather_scalars<std::int64_t>(*numbers, {position}).front();
    };
  }
  CostOfElement cost_of_element(const IterContext& context) const {
    if (!costs_->known()) {
      return [costs = costs_, key = context.rows_key()](const Element& row, std::int64_t number) {
        return costs->of(row, number, key);
      };
    }
    return [plan = plan_of_costs(context)](const Element&, std::int64_t number) {
      return gather_scalars<double>(*plan, {number}).front();
    };
  }

  std::shared_ptr<const RowCosts> costs_;
  CostRules rules_;
  std::shared_ptr<const Padding> padding_;
};

}  // namespace

NodePtr batch_by_cost(NodePtr input, RowCost cost, double budget, CostBatchOptions options) {
  TORCH_CHECK_VALUE(std::isfinite(budget) && budget > 0,
                    "batch_by_cost: `budget` must be a positive number, but is ", budget, ".");
  TORCH_CHECK_VALUE(options.window >= 1 && options.window <= kWidestCostWindow,
                    "batch_by_cost: `window` must be at least 1 and at most ", kWidestCostWindow, ", but is ",
                    options.window, ".");
  auto costs = std::make_shared<const RowCosts>(std::move(cost), "batch_by_cost: `cost`");
  auto padding = std::make_shared<const Padding>(std::move(options.padded_shapes),
                                                 std::move(options.padding_values), kBatchByCostName);
  return std::make_shared<BatchByCostNode>(std::move(input), std::move(costs),
                                           CostRules{budget, options.window}, std::move(padding));
}

}  // namespace torch_distinput::ops
