// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch_distinput {

/// An op that is not one for one, but after which it is known what a mixture among its inputs has drawn.
class TellsDrawn {
 public:
  virtual ~TellsDrawn() = default;
  /// Whether positions, of its plan or of its iterator, tell all elements of the mixture on which those
  /// before a position depend.
  virtual bool tells_drawn(bool runs_plan) const = 0;
};

}  // namespace torch_distinput
