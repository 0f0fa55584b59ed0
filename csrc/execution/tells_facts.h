// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// An op that knows something of its elements before they are read.
class TellsFacts {
 public:
  virtual ~TellsFacts() = default;
  /// What `explain` says of it: `98.2 % filled`; "" where nothing is known.
  virtual std::string facts(const IterContext& context) const = 0;
};

}  // namespace torch_distinput
