// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/excluding_node.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>

#include <c10/util/Exception.h>

#include "execution/index_plan.h"
#include "execution/tells_drawn.h"
#include "execution/unary_node.h"

namespace torch_distinput {
namespace {

/// Elements whose source rows are asked for at once.
constexpr std::int64_t kSearchedAtOnce = 4096;

/// Looks for excluded elements as far as positions need it: an endless plan has no last one.
class ExcludingPlan final : public IndexPlan {
 public:
  ExcludingPlan(PlanPtr input, std::int64_t position, std::vector<std::int64_t> rows)
      : IndexPlan(std::move(input)), rows_(std::move(rows)), searched_(position) {
    size_ = this->input().size();
    if (size_ == kEndless) return;
    search(size_);
    size_ -= std::ssize(shifts_);
  }

  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    if (position == 0) return input().sampled(0);
    std::int64_t last = position - 1;
    translate({&last, 1});
    return input().sampled(last + 1);
  }

 private:
  void translate(std::span<std::int64_t> positions) const override {
    const std::lock_guard lock(mutex_);
    for (std::int64_t& position : positions) {
      if (size_ == kEndless) search_for(position);
      position += std::upper_bound(shifts_.begin(), shifts_.end(), position) - shifts_.begin();
    }
  }

  /// Searches until element `position` that is left is known.
  void search_for(std::int64_t position) const {
    while (searched_ - std::ssize(shifts_) <= position) search(searched_ + kSearchedAtOnce);
  }

  void search(std::int64_t end) const {
    while (searched_ < end) {
      const std::int64_t next = std::min(searched_ + kSearchedAtOnce, end);
      if (has_excluded(searched_, next)) {
        for (std::int64_t element = searched_; element < next; ++element) {
          if (has_excluded(element, element + 1)) shifts_.push_back(element - std::ssize(shifts_));
        }
      }
      searched_ = next;
    }
  }

  /// Whether some element of [`begin`, `end`) has an excluded row.
  bool has_excluded(std::int64_t begin, std::int64_t end) const {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(end - begin));
    std::iota(positions.begin(), positions.end(), begin);
    std::vector<std::int64_t> rows;
    input().source_rows(positions, rows);
    return std::any_of(rows.begin(), rows.end(), [this](std::int64_t row) {
      return std::binary_search(rows_.begin(), rows_.end(), row);
    });
  }

  std::vector<std::int64_t> rows_;
  std::int64_t size_;
  mutable std::mutex mutex_;
  mutable std::int64_t searched_;  ///< excluded elements before it are known
  /// Of excluded element i: its position less i, the first position that it moves.
  mutable std::vector<std::int64_t> shifts_;
};

class ExcludingNode final : public UnaryNode, public TellsDrawn {
 public:
  ExcludingNode(NodePtr input, std::int64_t position, std::vector<std::int64_t> rows)
      : UnaryNode(std::move(input)), position_(position), rows_(std::move(rows)) {}

  std::string_view name() const override { return "exclude"; }
  std::string describe() const override { return c10::str("exclude(", rows_.size(), " rows)"); }
  std::string identity() const override { return ""; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return excluding_node(std::move(inputs.at(0)), position_, rows_);
  }
  Traits traits() const override {
    return {.sharding = {.pass_through = true}, .rows = {.follows = Follows::kChosen}};
  }
  bool tells_drawn(bool) const override { return true; }

  // The input gets this node's own context, so that random keys stay.
  PlanPtr plan(const IterContext& context) const override {
    PlanPtr elements = input().plan(context);
    if (elements == nullptr) return nullptr;
    return std::make_shared<ExcludingPlan>(std::move(elements), position_, rows_);
  }

  IteratorPtr iterate(const IterContext&) const override {
    TORCH_CHECK_VALUE(false, "exclude: rows can be left out only where the pipeline has random access.");
  }

 private:
  std::int64_t position_;
  std::vector<std::int64_t> rows_;
};

}  // namespace

NodePtr excluding_node(NodePtr input, std::int64_t position, std::vector<std::int64_t> rows) {
  return std::make_shared<ExcludingNode>(std::move(input), position, std::move(rows));
}

}  // namespace torch_distinput
