// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch_distinput/node.h"

namespace torch_distinput {

/// `node` without the places that only mark where policy HINT shards: for a look at an element before that.
NodePtr without_shard_marks(const NodePtr& node);

}  // namespace torch_distinput
