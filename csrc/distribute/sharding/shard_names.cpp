// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/sharding/shard_names.h"

#include "distribute/sharding/change_inputs.h"
#include "ops/ops.h"

namespace torch_distinput {
namespace {

/// Whether there is a random op at or below `node`, up to the first op with several inputs.
bool draws(const Node& node) {
  if (node.traits().order.random) return true;
  const auto inputs = node.inputs();
  return inputs.size() == 1 && draws(*inputs.front());
}

/// Whether the op's result for a name does not depend on the names before it.
bool takes_each_for_itself(const Traits& op) {
  return op.order.random || (op.sharding.pass_through && !op.order.counts && !op.rows.batches);
}

}  // namespace

bool takes_files(const Node& node) { return node.traits().sharding.reader || node.yields_readers(); }

NodePtr shard_names(const NodePtr& names, std::int64_t num_shards, std::int64_t index) {
  if (!draws(*names) || !takes_each_for_itself(names->traits()))
    return ops::shard(names, num_shards, index, /*require_non_empty=*/true);
  return change_inputs(names, [&](const NodePtr& input) { return shard_names(input, num_shards, index); });
}

}  // namespace torch_distinput
