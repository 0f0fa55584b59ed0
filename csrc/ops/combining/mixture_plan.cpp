// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/combining/mixture_plan.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "core/element_type.h"
#include "execution/part_plan.h"
#include "execution/plan_traits.h"
#include "ops/combining/same_layout.h"

namespace torch_distinput {
namespace {

bool follow_each_other(std::span<const std::int64_t> positions) {
  return std::adjacent_find(positions.begin(), positions.end(),
                            [](std::int64_t a, std::int64_t b) { return b != a + 1; }) == positions.end();
}

/// Each input is a part.
class MixturePlan final : public PartPlan {
 public:
  MixturePlan(std::vector<PlanPtr> parts, MixtureOrder order, std::int64_t size, std::string_view op)
      : parts_(std::move(parts)), order_(std::move(order)), size_(size), op_(op) {
    for (const PlanPtr& part : parts_) {
      if (part == nullptr) continue;
      traits_ = join(traits_, part->traits());
      rows_known_ = rows_known_ && (part->size() == 0 || part->rows(0) != kUnknownRows);
      if (first_ == nullptr) first_ = part.get();
      same_layout_ = same_layout_ && same_layout(first_->layout(), part->layout());
    }
  }

  std::int64_t size() const override { return size_; }
  PlanTraits traits() const override { return traits_; }
  const RowLayout* layout() const override { return same_layout_ ? first_->layout() : nullptr; }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    if (same_layout_) return PartPlan::fetch(positions);
    const std::vector<std::int64_t> numbers(positions.begin(), positions.end());
    std::vector<Element> elements = PartPlan::fetch(positions);
    for (std::size_t i = 0; i < elements.size(); ++i) type_.check(elements[i], numbers[i], op_);
    return elements;
  }

  std::int64_t rows(std::int64_t position) const override {
    return rows_known_ ? PartPlan::rows(position) : kUnknownRows;
  }
  std::int64_t rows_before(std::int64_t position) const override {
    if (!rows_known_) return kUnknownRows;
    const std::vector<std::int64_t> counts = order_.counts(position);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i] != nullptr) sum += parts_[i]->rows_before(counts[i]);
    }
    return sum;
  }
  std::vector<std::int64_t> sampled(std::int64_t position) const override { return order_.counts(position); }

 private:
  Place locate(std::int64_t position) const override {
    const MixtureOrder::Place place = order_.locate(position);
    return {static_cast<std::int64_t>(place.input), place.number};
  }
  PlanPtr part(std::int64_t index) const override { return parts_[static_cast<std::size_t>(index)]; }

  /// Positions of a batch follow each other, unless rows are shuffled after they were mixed.
  void split(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
             const Forward& forward) const override {
    if (positions.size() < 2 || !follow_each_other(positions))
      return split_by_place(positions, slots, forward);
    std::vector<std::int64_t> part_slots;
    const auto take = [&](std::size_t input, std::int64_t first, std::span<const std::int64_t> offsets) {
      if (!slots.empty()) {
        part_slots.clear();
        for (const std::int64_t offset : offsets)
          part_slots.push_back(slots[static_cast<std::size_t>(offset)]);
      }
      const std::span<std::int64_t> here = positions.first(offsets.size());
      std::iota(here.begin(), here.end(), first);
      forward(*parts_[input], here, slots.empty() ? offsets : std::span<const std::int64_t>(part_slots));
    };
    order_.locate_run(positions.front(), std::ssize(positions), take);
  }

  std::vector<PlanPtr> parts_;
  MixtureOrder order_;
  std::int64_t size_;
  std::string_view op_;
  PlanTraits traits_;
  const Plan* first_ = nullptr;  ///< of the parts that are drawn
  bool rows_known_ = true;
  bool same_layout_ = true;
  mutable ElementType type_;
};

}  // namespace

PlanPtr mixture_plan(std::vector<PlanPtr> parts, MixtureOrder order, std::int64_t size, std::string_view op) {
  return std::make_shared<MixturePlan>(std::move(parts), std::move(order), size, op);
}

}  // namespace torch_distinput
