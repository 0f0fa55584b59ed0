// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "core/batch_schedule.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// An op with arguments by step. What a step is, an op further on decides: that which makes its elements
/// batches.
class CountsSteps {
 public:
  virtual ~CountsSteps() = default;
  /// Whether it has not been told how many elements a step has; meanwhile an element is a step.
  virtual bool lacks_steps() const = 0;
  /// The same op, of which step k has as many elements as batch k of `sizes`.
  virtual NodePtr with_steps(const BatchSchedule& sizes) const = 0;
};

/// The pipeline `node`, of which `op` makes batches of `sizes`: the steps of the ops below that lack them are
/// those batches. Throws c10::ValueError where an op between changes the number of elements.
NodePtr with_steps(NodePtr node, const BatchSchedule& sizes, std::string_view op);

}  // namespace torch_distinput
