// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch_distinput/node.h"

namespace torch_distinput {

/// Returns `node` without the ops that only mark where policy HINT shards, so that its first element can be
/// read before the shards are known.
NodePtr without_shard_marks(const NodePtr& node);

}  // namespace torch_distinput
