// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/node.h"

#include <algorithm>

#include "torch_distinput/function.h"

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

bool Node::runs_user_code() const {
  const auto code = user_code();
  return std::any_of(code.begin(), code.end(), [](const UserCode* one) { return one->runs_user_code(); });
}

LastNormalizationPtr Node::last_normalization() const {
  const Traits own = traits();
  const bool hands_on_elements = own.sharding.pass_through && !own.rows.fallible &&
                                 (own.rows.row_wise || own.order.counts || own.order.random);
  return hands_on_elements ? inputs().front()->last_normalization() : nullptr;
}

PlanPtr Node::plan(const IterContext&) const { return nullptr; }

}  // namespace torch_distinput
