// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// Whether the input of `node` is names of files, of which each rank or stream may read its own. May run a
/// user's function once, on the first element.
bool takes_files(const Node& node);

/// Shard `index` of `num_shards` of `names`, which are names of files. The shard goes before a shuffle, so
/// that the readers of different shards need not draw the same order, but after ops that choose or number
/// shuffled names, which must see all of them.
NodePtr shard_names(const NodePtr& names, std::int64_t num_shards, std::int64_t index);

}  // namespace torch_distinput
