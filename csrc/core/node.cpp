// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/node.h"

namespace torch_distinput {

Iterator::~Iterator() = default;
Node::~Node() = default;

Options Node::options() const {
  Options merged;
  for (const auto& input : inputs()) merged = merged.merged(input->options());
  return merged;
}

void Node::check_sources() const {
  for (const auto& input : inputs()) input->check_sources();
}

std::int64_t Node::checked_cardinality() const {
  const std::int64_t count = cardinality();
  if (options().skip) return count;
  check_sources();
  return cardinality();  // files that could not be counted before may be complete now
}

LastNormalizationPtr Node::last_normalization() const {
  const Traits own = traits();
  const bool hands_on_elements =
      own.pass_through && !own.fallible && (own.row_wise || own.counts || own.random);
  return hands_on_elements ? inputs().front()->last_normalization() : nullptr;
}

PlanPtr Node::plan(const IterContext&) const { return nullptr; }

}  // namespace torch_distinput
