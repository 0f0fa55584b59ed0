// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execution/element_parser.h"
#include "execution/unary_node.h"

namespace torch_distinput {

/// Base of the ops that parse strings: one result for each element, in order. Batches keep their rows. Random
/// access if the input has it, unless rows that fail are skipped; a batch of records is parsed as one column.
/// The state is that of the input.
class ParseNode : public UnaryNode {
 public:
  using UnaryNode::UnaryNode;

  Traits traits() const override {
    return {.sharding = {.pass_through = true}, .rows = {.fallible = true, .row_wise = true}};
  }
  PlanPtr plan(const IterContext& context) const override;
  IteratorPtr iterate(const IterContext& context) const override;

 protected:
  /// Returns the parser. May read the first element, and throws what that throws.
  virtual ElementParserPtr parser() const = 0;
};

}  // namespace torch_distinput
