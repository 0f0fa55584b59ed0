// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "base/hash.h"
#include "core/state_reader.h"
#include "execution/index_plan.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

std::span<const std::int64_t> numbers(const at::Tensor& indices) {
  return {indices.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(indices.numel())};
}

/// Replaces a position by the index there.
class SelectPlan final : public IndexPlan {
 public:
  SelectPlan(PlanPtr input, at::Tensor indices) : IndexPlan(std::move(input)), indices_(std::move(indices)) {}
  std::int64_t size() const override { return indices_.numel(); }
  /// The chosen rows are a dataset of their own, numbered by their places in `indices`.
  std::int64_t num_source_rows() const override { return size(); }
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const override {
    rows.insert(rows.end(), positions.begin(), positions.end());
  }
  void source_rows_of(std::span<const Segment> segments, std::vector<std::int64_t>& rows) const override {
    std::int64_t last = -1;
    for (const Segment& segment : segments) {
      if (segment.end == segment.begin || segment.element == last) continue;
      last = segment.element;
      rows.push_back(last);
    }
  }

  /// The element's first source row tells where it lies.
  SourceRow source_row(std::int64_t row) const override {
    std::vector<std::int64_t> rows;
    IndexPlan::source_rows({&row, 1}, rows);
    return input().source_row(rows.front());
  }

 private:
  void translate(std::span<std::int64_t> positions) const override {
    const auto chosen = numbers(indices_);
    for (std::int64_t& position : positions) position = chosen[static_cast<std::size_t>(position)];
  }

  at::Tensor indices_;
};

/// Keeps all elements it has read, because any of them may be selected again. The state is the number of
/// elements handed out; after a restore the input is read again.
class SelectIterator final : public Iterator {
 public:
  SelectIterator(IteratorPtr input, at::Tensor indices)
      : input_(std::move(input)), indices_(std::move(indices)) {}

  std::optional<Element> next() override {
    const auto chosen = numbers(indices_);
    if (position_ == chosen.size()) return std::nullopt;
    const auto wanted = static_cast<std::size_t>(chosen[position_]);
    while (elements_.size() <= wanted) {
      std::optional<Element> element = input_->next();
      TORCH_CHECK_INDEX(element.has_value(), "select: `indices` has ", wanted, ", but the dataset has only ",
                        elements_.size(), " elements.");
      elements_.push_back(std::move(*element));
    }
    ++position_;
    return elements_[wanted];
  }

  State save() const override { return State().set("position", static_cast<std::int64_t>(position_)); }
  void load(const State& state) override {
    position_ = static_cast<std::size_t>(StateReader(state, "select").count("position", indices_.numel()));
  }

 private:
  IteratorPtr input_;
  at::Tensor indices_;
  std::vector<Element> elements_;
  std::size_t position_ = 0;
};

/// The elements at given indices, in that order, as often as they occur, as torch.utils.data.Subset. Batches
/// keep their size. Random access if the input has it.
class SelectNode final : public UnaryNode {
 public:
  SelectNode(NodePtr input, at::Tensor indices) : UnaryNode(std::move(input)), indices_(std::move(indices)) {}

  std::string_view name() const override { return "select"; }
  std::string describe() const override { return "select(" + std::to_string(indices_.numel()) + " indices)"; }
  /// With a hash of the indices, so that other indices are another pipeline.
  std::string identity() const override {
    Hash hash;
    for (const std::int64_t index : numbers(indices_)) hash.add_word(static_cast<std::uint64_t>(index));
    std::ostringstream text;
    text << "select(" << indices_.numel() << " indices, hash=" << std::hex << hash.value() << ")";
    return text.str();
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return select(std::move(inputs.at(0)), indices_);
  }
  std::int64_t cardinality() const override { return indices_.numel(); }
  /// Not pass-through: indices refer to the elements of the whole input, so files must not be sharded before
  /// it.
  Traits traits() const override { return {.rows = {.follows = Follows::kChosen}}; }
  LastNormalizationPtr last_normalization() const override { return input().last_normalization(); }

  PlanPtr plan(const IterContext& context) const override {
    PlanPtr all = input().plan(context.input(0));
    return all == nullptr ? nullptr : std::make_shared<SelectPlan>(std::move(all), indices_);
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<SelectIterator>(open_iterator(input_ptr(), context.input(0)), indices_);
  }

 private:
  at::Tensor indices_;
};

}  // namespace

NodePtr select(NodePtr input, const at::Tensor& indices) {
  TORCH_CHECK_TYPE(indices.scalar_type() == at::kLong && indices.dim() == 1,
                   "select: `indices` must be an int64 tensor of one dimension, but has ", indices.dim(),
                   " of ", indices.scalar_type(), ".");
  // A copy, because indices that are checked here are trusted while rows are read.
  at::Tensor own = indices.clone(at::MemoryFormat::Contiguous);
  if (own.numel() > 0) {
    const auto chosen = numbers(own);
    const auto [least, most] = std::minmax_element(chosen.begin(), chosen.end());
    const std::int64_t size = input->cardinality();
    TORCH_CHECK_INDEX(*least >= 0, "select: `indices` must be at least 0, but has ", *least, ".");
    TORCH_CHECK_INDEX(size < 0 || *most < size, "select: `indices` must be below ", size,
                      ", the number of elements, but has ", *most, ".");
  }
  return std::make_shared<SelectNode>(std::move(input), std::move(own));
}

}  // namespace torch_distinput::ops
