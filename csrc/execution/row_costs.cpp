// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/row_costs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <sstream>
#include <utility>

#include <c10/util/Exception.h>

#include "base/hash.h"
#include "core/locate_errors.h"
#include "core/names.h"
#include "execution/execution_context.h"
#include "execution/plan_iterator.h"
#include "execution/rebased.h"
#include "execution/scalars_plan.h"
#include "kernels/rows.h"
#include "torch_distinput/random.h"

namespace torch_distinput {
namespace {

class ValuesPlan final : public ScalarsPlan<double> {
 public:
  ValuesPlan(std::shared_ptr<const std::vector<double>> values, std::shared_ptr<BufferPool> pool)
      : ScalarsPlan(std::ssize(*values), std::move(pool)), values_(std::move(values)) {}

 private:
  void find(std::span<std::int64_t> positions, std::span<double> values) const override {
    for (std::size_t i = 0; i < positions.size(); ++i)
      values[i] = (*values_)[static_cast<std::size_t>(positions[i])];
  }

  std::shared_ptr<const std::vector<double>> values_;
};

class NumbersPlan final : public ScalarsPlan<std::int64_t> {
 public:
  using ScalarsPlan::ScalarsPlan;

 private:
  void find(std::span<std::int64_t> positions, std::span<std::int64_t> values) const override {
    std::copy(positions.begin(), positions.end(), values.begin());
  }
};

/// A source of the values, or of the positions themselves without them.
class ScalarsNode final : public Node {
 public:
  ScalarsNode(std::int64_t size, std::shared_ptr<const std::vector<double>> values)
      : size_(size), values_(std::move(values)) {}

  std::string_view name() const override { return "costs"; }
  std::string describe() const override { return "costs of " + std::to_string(size_) + " rows"; }
  std::vector<NodePtr> inputs() const override { return {}; }
  NodePtr with_inputs(std::vector<NodePtr>) const override { return shared_from_this(); }
  SpecPtr spec() const override {
    return std::make_shared<const ElementSpec>(
        ElementSpec{Structure::leaf(), {TensorSpec{Dims{}, values_ ? at::kDouble : at::kLong}}});
  }
  std::int64_t cardinality() const override { return size_; }
  PlanPtr plan(const IterContext& context) const override {
    const auto& pool = context.execution->pool;
    if (values_ == nullptr) return std::make_shared<NumbersPlan>(size_, pool);
    return std::make_shared<ValuesPlan>(values_, pool);
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return make_plan_iterator(plan(context), context.execution);
  }

 private:
  std::int64_t size_;
  std::shared_ptr<const std::vector<double>> values_;
};

/// The op that makes the rows which `node` yields, batches, chooses or changes one for one.
const Node& source_of(const Node& node) {
  return passes_rows(node) ? source_of(*node.inputs().front()) : node;
}

/// `node` over `source` in the place of its own.
NodePtr over(const NodePtr& node, const NodePtr& source) {
  return rebased(node, [&](const Node& op) { return passes_rows(op) ? nullptr : source; });
}

/// A copy, so that no later write to the tensor changes the costs.
std::vector<double> copied(const at::Tensor& costs, std::string_view call) {
  TORCH_CHECK_VALUE(costs.defined(), call, " is an undefined tensor.");
  TORCH_CHECK_TYPE(costs.dim() == 1 && !costs.is_complex() && costs.layout() == at::kStrided, call,
                   " must be real numbers in a tensor of one dimension, but has ", costs.dim(), " of ",
                   costs.scalar_type(), ".");
  const at::Tensor plain = costs.detach().to(at::kCPU, at::kDouble).contiguous();
  const auto* const first = plain.const_data_ptr<double>();
  return {first, first + plain.numel()};
}

/// The number in a leaf that is a real scalar.
std::optional<double> scalar_of(const Leaf& leaf) {
  const auto* const tensor = std::get_if<at::Tensor>(&leaf);
  const bool real = tensor != nullptr && tensor->dim() == 0 && !tensor->is_complex();
  return real ? std::optional(tensor->item<double>()) : std::nullopt;
}

/// The length of a leaf that is a sequence.
std::optional<double> length_of(const Leaf& leaf) {
  if (const auto* const text = std::get_if<Bytes>(&leaf); text != nullptr && text->shape.empty())
    return static_cast<double>((*text)[0].size());
  const auto rows = Element(Structure::leaf(), {leaf}).rows();
  return rows ? std::optional(static_cast<double>(*rows)) : std::nullopt;
}

/// The leaf under `key`; null unless the element is a dict with one leaf there.
const Leaf* leaf_at(const Element& row, const std::string& key) {
  const Structure& structure = *row.structure();
  const auto& keys = structure.keys();
  const auto found = std::find(keys.begin(), keys.end(), key);
  if (found == keys.end()) return nullptr;
  const auto child = found - keys.begin();
  const auto& children = structure.children();
  if (children[static_cast<std::size_t>(child)]->leaf_count() != 1) return nullptr;
  std::int64_t leaf = 0;
  for (auto before = children.begin(); before != children.begin() + child; ++before)
    leaf += (*before)->leaf_count();
  return &row.leaves()[static_cast<std::size_t>(leaf)];
}

}  // namespace

RowCosts::RowCosts(RowCost cost, std::string_view call) : cost_(std::move(cost)), call_(call) {
  if (const auto* const costs = std::get_if<at::Tensor>(&cost_)) {
    std::vector<double> values = copied(*costs, call);
    for (std::size_t i = 0; i < values.size(); ++i) checked(values[i], static_cast<std::int64_t>(i));
    Hash hash;
    for (const double cost : values) hash.add_word(std::bit_cast<std::uint64_t>(cost));
    hash_ = hash.value();
    values_ = std::make_shared<const std::vector<double>>(std::move(values));
    cost_ = at::Tensor();
  } else if (const auto* const function = std::get_if<FunctionPtr>(&cost_)) {
    TORCH_CHECK_VALUE(*function != nullptr, call, " must not be null.");
  }
}

const Function* RowCosts::function() const {
  const auto* const function = std::get_if<FunctionPtr>(&cost_);
  return function == nullptr ? nullptr : function->get();
}

std::string RowCosts::describe() const {
  if (known()) return "costs of " + std::to_string(values_->size()) + " rows";
  if (const auto* const key = std::get_if<std::string>(&cost_)) return "'" + *key + "'";
  return function()->name();
}

std::string RowCosts::identity() const {
  if (!known()) return describe();
  std::ostringstream text;
  text << describe() << ", hash=" << std::hex << hash_;
  return text.str();
}

void RowCosts::check(const NodePtr& rows) const {
  const Node& source = source_of(*rows);
  const std::int64_t count = source.cardinality();
  TORCH_CHECK_VALUE(count >= 0, call_, " by row needs a known number of rows, but that of `",
                    source.describe(), "` is ", count == kInfiniteCardinality ? "infinite" : "unknown",
                    "; give the name of a column, or a function.");
  TORCH_CHECK_VALUE(std::ssize(*values_) == count, call_, " must have one entry for each of the ", count,
                    " rows of `", source.describe(), "`, but has ", values_->size(), ".");
}

NodePtr RowCosts::in_place_of(const NodePtr& rows) const {
  return over(rows, std::make_shared<ScalarsNode>(std::ssize(*values_), values_));
}

NodePtr RowCosts::numbers_in_place_of(const NodePtr& rows) const {
  return over(rows, std::make_shared<ScalarsNode>(std::ssize(*values_), nullptr));
}

double RowCosts::of(const Element& row, std::int64_t number, std::uint64_t key) const {
  return function() == nullptr ? by_key(row, number) : by_function(row, number, key);
}

double RowCosts::by_key(const Element& row, std::int64_t number) const {
  const auto& key = std::get<std::string>(cost_);
  const Leaf* const leaf = leaf_at(row, key);
  TORCH_CHECK_VALUE(leaf != nullptr, call_, " must be the key of one leaf of the rows, ",
                    row.structure()->str(), ", but is '", key, "'.");
  const auto scalar = scalar_of(*leaf);
  const auto cost = scalar ? scalar : length_of(*leaf);
  TORCH_CHECK_TYPE(cost.has_value(), call_, " '", key, "' must be a number or a sequence, but is ",
                   to_string(spec_of(Element(Structure::leaf(), {*leaf}))), ".");
  return checked(*cost, number);
}

double RowCosts::by_function(Element row, std::int64_t number, std::uint64_t key) const {
  {
    const RowScope scope(key, {&number, 1});
    const auto where = [&] { return c10::str(call_, " (", function()->name(), "): row ", number); };
    locate_errors(*function(), where, [&] { function()->apply({&row, 1}); });
  }
  const auto cost =
      row.structure() == Structure::leaf() ? scalar_of(row.leaves().front()) : std::optional<double>();
  TORCH_CHECK_TYPE(cost.has_value(), call_, " (", function()->name(), "): row ", number,
                   ": the function must return one number, but returned ", to_string(spec_of(row)), ".");
  return checked(*cost, number);
}

double RowCosts::checked(double cost, std::int64_t number) const {
  TORCH_CHECK_VALUE(std::isfinite(cost) && cost >= 0, call_, " must be finite and at least 0, but row ",
                    number, " costs ", cost, ".");
  return cost;
}

std::vector<double> take_costs(const Plan& batches, std::span<const Segment> segments) {
  if (segments.empty()) return {};
  const at::Tensor costs = batches.take_rows(segments).tensor().contiguous();
  const auto* const first = costs.const_data_ptr<double>();
  return {first, first + costs.numel()};
}

}  // namespace torch_distinput
