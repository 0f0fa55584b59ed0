// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch_distinput/node.h"

namespace torch_distinput {

/// Whether a source of the pipeline up to `node` reads its files in an order that is drawn anew in each epoch
/// and round of `repeat`, so that the same number is another row there. What an op keeps for later epochs is
/// numbered as in the first.
bool draws_files(const Node& node);

}  // namespace torch_distinput
