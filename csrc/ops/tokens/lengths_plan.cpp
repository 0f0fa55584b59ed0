// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/tokens/lengths_plan.h"

#include <limits>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "kernels/dense.h"
#include "torch_distinput/error.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {
namespace {

class LengthsPlan final : public Plan {
 public:
  LengthsPlan(PlanPtr input, std::size_t leaf, std::shared_ptr<const Lengths> lengths, std::string place)
      : input_(std::move(input)), leaf_(leaf), lengths_(std::move(lengths)), place_(std::move(place)) {}

  std::int64_t size() const override { return input_->size(); }
  PlanTraits traits() const override { return input_->traits(); }
  std::int64_t least_bytes() const override { return input_->least_bytes(); }
  std::string origin(std::int64_t position) const override { return input_->origin(position); }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    const std::vector<std::int64_t> numbers(positions.begin(), positions.end());
    std::vector<Element> elements = input_->fetch(positions);
    for (std::size_t i = 0; i < elements.size(); ++i) check(elements[i], numbers[i]);
    return elements;
  }

  bool knows_lengths(std::size_t leaf) const override { return leaf == leaf_ || input_->knows_lengths(leaf); }
  void lengths(std::size_t leaf, std::span<std::int64_t> positions) const override {
    if (leaf != leaf_) return input_->lengths(leaf, positions);
    for (std::int64_t& position : positions) position = (*lengths_)[static_cast<std::size_t>(position)];
  }

  std::vector<const Plan*> inputs() const override { return {input_.get()}; }
  std::int64_t num_source_rows() const override { return input_->num_source_rows(); }
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const override {
    input_->source_rows(positions, rows);
  }
  std::vector<std::int64_t> block_starts() const override { return input_->block_starts(); }
  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    return input_->sampled(position);
  }
  void will_read(std::span<std::int64_t> positions) const override { input_->will_read(positions); }

 private:
  void check(const Element& element, std::int64_t number) const {
    const std::int64_t known = (*lengths_)[static_cast<std::size_t>(number)];
    const std::int64_t found = length_of(element, leaf_, number);
    if (found == known) return;
    throw InvalidArgumentError(c10::str(kWithLengthsName, ": element ", number, " has length ", found,
                                        ", but the lengths stored for ", place_, " say ", known,
                                        ". What makes the elements has changed: remove the stored lengths."));
  }

  PlanPtr input_;
  std::size_t leaf_;
  std::shared_ptr<const Lengths> lengths_;
  std::string place_;
};

}  // namespace

std::int64_t length_of(const Element& element, std::size_t leaf, std::int64_t number) {
  const at::Tensor& rows = dense_leaf(element, leaf, kWithLengthsName, "count the rows of");
  TORCH_CHECK_VALUE(rows.dim() > 0 && rows.size(0) <= std::numeric_limits<Lengths::value_type>::max(),
                    kWithLengthsName, ": ", leaf_name(*element.structure(), leaf), " of element ", number,
                    " must have fewer than 2^32 rows along dim 0, but is ", to_string(spec_of(Element(rows))),
                    ".");
  return rows.size(0);
}

PlanPtr lengths_plan(PlanPtr input, std::size_t leaf, std::shared_ptr<const Lengths> lengths,
                     std::string place) {
  return std::make_shared<LengthsPlan>(std::move(input), leaf, std::move(lengths), std::move(place));
}

}  // namespace torch_distinput
