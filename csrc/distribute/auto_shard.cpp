// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/auto_shard.h"

#include <optional>
#include <utility>
#include <vector>

#include "distribute/batch_sizes.h"
#include "ops/ops.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

/// Whether sharding by file deals out what this node gets: names of files.
bool takes_files(const Node& node) { return node.traits().reader || node.yields_readers(); }

/// Why the sources below `node` cannot be dealt out file by file; nullopt: they can.
std::optional<std::string> no_files(const Node& node) {
  if (takes_files(node)) return std::nullopt;
  const auto inputs = node.inputs();
  if (inputs.empty()) return node.describe() + " does not read files";
  if (!node.traits().pass_through) return "sharding by file cannot look through " + node.describe();
  for (const NodePtr& input : inputs) {
    if (auto reason = no_files(*input)) return reason;
  }
  return std::nullopt;
}

/// `node` with `change` applied to its inputs.
template <class Change>
NodePtr change_inputs(const NodePtr& node, Change change) {
  std::vector<NodePtr> inputs = node->inputs();
  if (inputs.empty()) return node;
  for (NodePtr& input : inputs) input = change(input);
  return node->with_inputs(std::move(inputs));
}

NodePtr shard_files(const NodePtr& node, std::int64_t num_workers, std::int64_t worker) {
  if (node->traits().asserts_size) return shard_files(node->inputs().at(0), num_workers, worker);
  const bool files = takes_files(*node);
  return change_inputs(node, [&](const NodePtr& input) {
    return files ? ops::shard(input, num_workers, worker, /*require_non_empty=*/true)
                 : shard_files(input, num_workers, worker);
  });
}

/// Replaces the marks; `found` tells whether there was one.
NodePtr shard_hints(const NodePtr& node, std::int64_t num_workers, std::int64_t worker, bool& found) {
  if (node->traits().shard_hint) {
    found = true;
    return ops::shard(node->inputs().at(0), num_workers, worker, /*require_non_empty=*/true);
  }
  bool below = false;
  NodePtr changed = change_inputs(
      node, [&](const NodePtr& input) { return shard_hints(input, num_workers, worker, below); });
  found = found || below;
  return below ? changed : node;
}

Sharding by_hint(const NodePtr& node, std::int64_t num_workers, std::int64_t worker) {
  bool found = false;
  NodePtr sharded = shard_hints(node, num_workers, worker, found);
  if (!found) return {node, AutoShardPolicy::kOff, "the pipeline has no shard(SHARD_HINT, 0)"};
  return {std::move(sharded), AutoShardPolicy::kHint,
          "shard(SHARD_HINT, 0) became shard(" + std::to_string(num_workers) + ", " + std::to_string(worker) +
              ")"};
}

Sharding by_file(const NodePtr& node, std::int64_t num_workers, std::int64_t worker) {
  if (num_workers == 1) return {node, AutoShardPolicy::kFile, "one worker reads all files"};
  return {shard_files(node, num_workers, worker), AutoShardPolicy::kFile,
          "each worker reads files i mod " + std::to_string(num_workers)};
}

Sharding by_data(const NodePtr& node, std::int64_t num_workers, const std::string& why) {
  std::string reason =
      num_workers == 1 ? "one worker reads everything" : "each worker keeps its parts of each batch";
  if (!why.empty()) reason += ": " + why;
  return {node, AutoShardPolicy::kData, std::move(reason)};
}

}  // namespace

Sharding auto_shard(const NodePtr& node, AutoShardPolicy policy, std::int64_t num_workers,
                    std::int64_t worker) {
  check_worker("auto_shard", num_workers, worker);
  switch (policy) {
    case AutoShardPolicy::kOff:
      return {node, policy, "every worker reads everything"};
    case AutoShardPolicy::kHint:
      return by_hint(node, num_workers, worker);
    case AutoShardPolicy::kData:
      return by_data(node, num_workers, "");
    case AutoShardPolicy::kFile:
      if (const auto reason = num_workers == 1 ? std::nullopt : no_files(*node)) {
        throw NotFoundError("auto_shard: policy FILE deals out whole files, but " + *reason +
                            ". Set `auto_shard_policy` to DATA or OFF.");
      }
      return by_file(node, num_workers, worker);
    case AutoShardPolicy::kAuto:
      break;
  }
  if (const auto reason = no_files(*node)) return by_data(node, num_workers, *reason);
  return by_file(node, num_workers, worker);
}

std::string policy_name(AutoShardPolicy policy) {
  switch (policy) {
    case AutoShardPolicy::kOff:
      return "OFF";
    case AutoShardPolicy::kAuto:
      return "AUTO";
    case AutoShardPolicy::kFile:
      return "FILE";
    case AutoShardPolicy::kData:
      return "DATA";
    case AutoShardPolicy::kHint:
      return "HINT";
  }
  return {};
}

}  // namespace torch_distinput
