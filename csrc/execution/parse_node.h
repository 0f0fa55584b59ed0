// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "execution/unary_node.h"

namespace torch_distinput {

class BufferPool;

/// Names row `row` of the strings that are parsed, for messages: `element 7`, `row 2 of element 7`.
using RecordName = std::function<std::string(std::int64_t row)>;

/// Turns strings of an element into other leaves. Immutable, so safe from any thread.
class ElementParser {
 public:
  virtual ~ElementParser() = default;

  /// Returns the parsed element. Strings of `element` may be a single one or a column of any shape; each
  /// becomes a row in the result. Throws InvalidArgumentError naming the op, the row, the rule and the value.
  virtual Element parse(Element element, BufferPool& pool, const RecordName& name) const = 0;

  /// Whether a parsed column equals the stacked results for its strings.
  virtual bool stacks() const = 0;
  /// Whether a row of a parsed column depends on its own string only.
  virtual bool row_wise() const = 0;
};
using ElementParserPtr = std::shared_ptr<const ElementParser>;

/// Base of the ops that parse strings: one result for each element, in order. Batches keep their rows. Random
/// access if the input has it, unless rows that fail are skipped; a batch of records is parsed as one column.
/// The state is that of the input.
class ParseNode : public UnaryNode {
 public:
  using UnaryNode::UnaryNode;

  Traits traits() const override {
    return {.sharding = {.pass_through = true},
            .rows = {.fallible = true, .row_wise = true, .follows = Follows::kEach}};
  }
  PlanPtr plan(const IterContext& context) const override;
  IteratorPtr iterate(const IterContext& context) const override;

 protected:
  /// Returns the parser. May read the first element, and throws what that throws.
  virtual ElementParserPtr parser() const = 0;
};

}  // namespace torch_distinput
