// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/combining/mixture_plan.h"

#include <algorithm>
#include <memory>
#include <mutex>
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
  MixturePlan(std::vector<PlanPtr> parts, std::shared_ptr<const InputOrder> order, std::int64_t size,
              PlanPtr turns, std::string_view op, PlanOfInput undrawn)
      : parts_(std::move(parts)),
        order_(std::move(order)),
        size_(size),
        turns_(std::move(turns)),
        op_(op),
        undrawn_(std::move(undrawn)) {
    // A `repeat` makes the plans of later rounds, which read the turns, while its elements are read.
    if (turns_ != nullptr) {
      traits_.runs_user_code = turns_->traits().runs_user_code;
      traits_.blocks = turns_->traits().blocks;
    }
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
  std::vector<const Plan*> inputs() const override {
    std::vector<const Plan*> inputs;
    for (const PlanPtr& input : numbered().inputs) inputs.push_back(input.get());
    return inputs;
  }
  std::int64_t num_source_rows() const override { return numbered().first_rows.back(); }
  const RowLayout* layout() const override { return same_layout_ ? first_->layout() : nullptr; }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    if (same_layout_) return PartPlan::fetch(positions);
    const std::vector<std::int64_t> numbers(positions.begin(), positions.end());
    std::vector<Element> elements = PartPlan::fetch(positions);
    for (std::size_t i = 0; i < elements.size(); ++i) type_.check(elements[i], numbers[i], op_);
    return elements;
  }

  bool knows_lengths(std::size_t leaf) const override {
    return std::all_of(parts_.begin(), parts_.end(),
                       [&](const PlanPtr& part) { return part == nullptr || part->knows_lengths(leaf); });
  }
  std::int64_t rows(std::int64_t position) const override {
    return rows_known_ ? PartPlan::rows(position) : kUnknownRows;
  }
  std::int64_t rows_before(std::int64_t position) const override {
    if (!rows_known_) return kUnknownRows;
    const std::vector<std::int64_t> counts = order_->counts(position);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i] != nullptr) sum += parts_[i]->rows_before(counts[i]);
    }
    return sum;
  }
  /// Where the turns are not drawn here: what was drawn for them, or in the parts.
  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    std::vector<std::int64_t> counts = order_->counts(position);
    if (turns_ == nullptr) return counts;
    std::vector<std::int64_t> drawn = turns_->sampled(position);
    for (std::size_t i = 0; i < parts_.size() && drawn.empty(); ++i) drawn = parts_[i]->sampled(counts[i]);
    return drawn;
  }

 private:
  Place locate(std::int64_t position) const override {
    const InputOrder::Place place = order_->locate(position);
    return {static_cast<std::int64_t>(place.input), place.number};
  }
  PlanPtr part(std::int64_t index) const override { return parts_[static_cast<std::size_t>(index)]; }
  std::int64_t first_source_row(std::int64_t index) const override {
    return numbered().first_rows[static_cast<std::size_t>(index)];
  }

  struct Numbered {
    std::vector<PlanPtr> inputs;                 ///< null for a stream
    std::vector<std::int64_t> first_rows = {0};  ///< the first source row of each input, and those of all
  };
  const Numbered& numbered() const {
    std::call_once(numbered_once_, [this] {
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        const PlanPtr& input = numbered_.inputs.emplace_back(parts_[i] == nullptr ? undrawn_(i) : parts_[i]);
        numbered_.first_rows.push_back(numbered_.first_rows.back() + (input ? input->num_source_rows() : 0));
      }
    });
    return numbered_;
  }

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
    order_->locate_run(positions.front(), std::ssize(positions), take);
  }

  std::vector<PlanPtr> parts_;
  std::shared_ptr<const InputOrder> order_;
  std::int64_t size_;
  PlanPtr turns_;
  std::string_view op_;
  PlanOfInput undrawn_;
  PlanTraits traits_;
  const Plan* first_ = nullptr;  ///< of the parts that are drawn
  bool rows_known_ = true;
  bool same_layout_ = true;
  mutable ElementType type_;
  mutable std::once_flag numbered_once_;
  mutable Numbered numbered_;
};

}  // namespace

PlanPtr mixture_plan(std::vector<PlanPtr> parts, std::shared_ptr<const InputOrder> order, std::int64_t size,
                     PlanPtr turns, std::string_view op, PlanOfInput undrawn) {
  return std::make_shared<MixturePlan>(std::move(parts), std::move(order), size, std::move(turns), op,
                                       std::move(undrawn));
}

}  // namespace torch_distinput
