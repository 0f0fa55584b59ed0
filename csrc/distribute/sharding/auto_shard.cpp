// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/sharding/auto_shard.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "distribute/sharding/change_inputs.h"
#include "distribute/sharding/shard_names.h"
#include "distribute/sharding/stream_cut.h"
#include "distribute/splitting/batch_sizes.h"
#include "ops/ops.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

/// Why the sources of `node` cannot be assigned file by file; nullopt if they can.
std::optional<std::string> no_files(const Node& node) {
  if (takes_files(node)) return std::nullopt;
  const auto inputs = node.inputs();
  if (inputs.empty()) return node.describe() + " does not read files";
  if (!node.traits().sharding.pass_through) return "sharding by file cannot look through " + node.describe();
  for (const NodePtr& input : inputs) {
    if (auto reason = no_files(*input)) return reason;
  }
  return std::nullopt;
}

/// Collects the nodes at or below `node` that take names of files. REQUIRES: `no_files(node)` is nullopt.
void collect_takers(const NodePtr& node, std::vector<NodePtr>& takers) {
  if (takes_files(*node)) {
    takers.push_back(node);
    return;
  }
  for (const NodePtr& input : node->inputs()) collect_takers(input, takers);
}

/// `node` with `change` applied to every node at or below it that takes names of files.
template <class Change>
NodePtr change_takers(const NodePtr& node, Change change) {
  if (node->traits().sharding.asserts_size) return change_takers(node->inputs().at(0), change);
  if (takes_files(*node)) return change(node);
  return change_inputs(node, [&](const NodePtr& input) { return change_takers(input, change); });
}

NodePtr shard_files(const NodePtr& node, std::int64_t num_ranks, std::int64_t rank) {
  return change_takers(node, [&](const NodePtr& taker) {
    return change_inputs(taker, [&](const NodePtr& names) { return shard_names(names, num_ranks, rank); });
  });
}

/// Appends to `found` the ops, above those that take names of files, that count elements: sharded by file,
/// each rank counts for itself, as in tf.distribute.
void collect_counting(const NodePtr& node, std::string& found) {
  if (takes_files(*node)) return;
  for (const NodePtr& input : node->inputs()) collect_counting(input, found);
  if (node->traits().order.counts) found += "; " + node->describe() + " counts on each rank for itself";
}

/// Whether `collect_counting` finds an op.
bool counts_records(const Node& node) {
  std::string found;
  collect_counting(node.shared_from_this(), found);
  return !found.empty();
}

/// A node that gets fewer files than `num_ranks`, but at least one; null if there is none.
NodePtr find_short(const std::vector<NodePtr>& takers, std::int64_t num_ranks) {
  for (const NodePtr& taker : takers) {
    const std::int64_t files = taker->inputs().at(0)->cardinality();
    if (files > 0 && files < num_ranks) return taker;
  }
  return nullptr;
}

std::string too_few(const Node& taker, std::int64_t num_ranks) {
  return taker.describe() + " gets only " + std::to_string(taker.inputs().at(0)->cardinality()) +
         " file(s), fewer than the " + std::to_string(num_ranks) + " ranks";
}

/// This rank's contiguous range of the records. Ranges differ by at most one record.
NodePtr shard_records(const NodePtr& node, std::int64_t num_ranks, std::int64_t rank) {
  return change_takers(node, [&](const NodePtr& reader) {
    const std::int64_t records = reader->cardinality();
    const std::int64_t share = records / num_ranks;
    const std::int64_t longer = records % num_ranks;
    const std::int64_t begin = rank * share + std::min(rank, longer);
    return ops::take(ops::skip(reader, begin), share + (rank < longer ? 1 : 0));
  });
}

/// Replaces the ops `shard(SHARD_HINT, 0)`; sets `found` if there is one.
NodePtr shard_hints(const NodePtr& node, std::int64_t num_ranks, std::int64_t rank, bool& found) {
  if (node->traits().sharding.hint) {
    found = true;
    const NodePtr input = node->inputs().at(0);
    const std::int64_t elements = input->cardinality();
    if (elements > 0 && elements < num_ranks) {
      throw InvalidArgumentError("auto_shard: `shard(SHARD_HINT, 0)` gets only " + std::to_string(elements) +
                                 " element(s), fewer than the " + std::to_string(num_ranks) + " ranks.");
    }
    return ops::shard(input, num_ranks, rank, /*require_non_empty=*/true);
  }
  bool below = false;
  NodePtr changed =
      change_inputs(node, [&](const NodePtr& input) { return shard_hints(input, num_ranks, rank, below); });
  found = found || below;
  return below ? changed : node;
}

Sharding by_hint(const NodePtr& node, std::int64_t num_ranks, std::int64_t rank) {
  bool found = false;
  NodePtr sharded = shard_hints(node, num_ranks, rank, found);
  if (!found) return {node, AutoShardPolicy::kOff, "the pipeline has no shard(SHARD_HINT, 0)"};
  return {
      std::move(sharded), AutoShardPolicy::kHint,
      "shard(SHARD_HINT, 0) became shard(" + std::to_string(num_ranks) + ", " + std::to_string(rank) + ")"};
}

Sharding by_data(const NodePtr& node, std::int64_t num_ranks, const std::string& why) {
  std::string reason =
      num_ranks == 1 ? "one process reads everything" : "each rank keeps its parts of each batch";
  if (!why.empty()) reason += ": " + why;
  return {node, AutoShardPolicy::kData, std::move(reason)};
}

Sharding by_streams(const NodePtr& node, std::int64_t num_ranks) {
  auto cut = cut_streams(node);
  if (const auto* reason = std::get_if<std::string>(&cut))
    return by_data(node, num_ranks, "it is not cut into streams: " + *reason);
  return {node, AutoShardPolicy::kStreams, "each byte is read once", std::get<StreamCutPtr>(std::move(cut))};
}

Sharding by_file(const NodePtr& node, AutoShardPolicy policy, std::int64_t num_ranks, std::int64_t rank) {
  if (num_ranks == 1) return {node, AutoShardPolicy::kFile, "one process reads all files"};
  std::vector<NodePtr> takers;
  collect_takers(node, takers);
  const NodePtr lacking = find_short(takers, num_ranks);
  if (lacking == nullptr) {
    std::string reason = "each rank reads files i mod " + std::to_string(num_ranks);
    collect_counting(node, reason);
    return {shard_files(node, num_ranks, rank), AutoShardPolicy::kFile, std::move(reason)};
  }
  std::string reason = too_few(*lacking, num_ranks);
  if (policy == AutoShardPolicy::kFile) {
    throw InvalidArgumentError(
        "auto_shard: Could not apply FILE based sharding: " + reason +
        ". Set the auto sharding policy to DATA or OFF, or split the data into at least "
        "as many files as there are ranks.");
  }
  // Readers that must advance together (zip), and ops that choose among all records, need the whole stream on
  // every rank: then parts of batches are assigned.
  const bool indexed = takers.size() == 1 && lacking->traits().sharding.reader && lacking->cardinality() >= 0;
  if (!indexed || counts_records(*node)) return by_data(node, num_ranks, reason);
  return {shard_records(node, num_ranks, rank), AutoShardPolicy::kFile,
          "each rank reads its range of the records: " + reason};
}

}  // namespace

Sharding auto_shard(const NodePtr& node, AutoShardPolicy policy, std::int64_t num_ranks, std::int64_t rank) {
  check_worker("auto_shard", num_ranks, rank);
  switch (policy) {
    case AutoShardPolicy::kOff:
      return {node, policy, "every rank reads everything"};
    case AutoShardPolicy::kHint:
      return by_hint(node, num_ranks, rank);
    case AutoShardPolicy::kData:
      return by_data(node, num_ranks, "");
    case AutoShardPolicy::kStreams:
      return by_streams(node, num_ranks);
    case AutoShardPolicy::kFile:
      if (const auto reason = num_ranks == 1 ? std::nullopt : no_files(*node)) {
        throw NotFoundError("auto_shard: policy FILE assigns whole files, but " + *reason +
                            ". Set `auto_shard_policy` to DATA or OFF.");
      }
      return by_file(node, policy, num_ranks, rank);
    case AutoShardPolicy::kAuto:
      break;
  }
  if (const auto reason = no_files(*node)) return by_data(node, num_ranks, *reason);
  return by_file(node, policy, num_ranks, rank);
}

}  // namespace torch_distinput
