// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch_distinput/dataset.h"
#include "torch_distinput/function.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// An op whose results are those of a user's function, each for one element, whoever calls it.
class CallsFunction {
 public:
  virtual ~CallsFunction() = default;
  virtual FunctionPtr function() const = 0;
  /// With a `block` above 1, the function gets lists of elements.
  virtual const MapOptions& call_options() const = 0;
  /// The op with another function in its place, which returns the same.
  virtual NodePtr with_function(FunctionPtr function) const = 0;
};

}  // namespace torch_distinput
