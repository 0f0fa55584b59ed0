// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/dealing.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "distribute/batch_sizes.h"
#include "distribute/infer_batch_size.h"

namespace torch_distinput {
namespace {

std::vector<std::int64_t> numbers(std::int64_t first, std::int64_t step, std::int64_t count) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(count));
  for (auto& number : result) number = std::exchange(first, first + step);
  return result;
}

/// The splitter that tf.distribute would run.
void split_as_tf(Dealing& dealing) {
  const Replicas& replicas = dealing.replicas;
  const bool data = dealing.sharding.applied == AutoShardPolicy::kData;
  // Whole batches must stay together where workers keep parts k mod workers of one stream.
  if (data || dealing.batch <= 0) {
    dealing.splitter = legacy_splitter(replicas.all());
    dealing.splitter_reason = data ? "policy DATA needs a fixed number of parts a batch"
                                   : "the batch size cannot be inferred, so each batch is cut as it comes";
    if (data) {
      dealing.width = replicas.all();
      dealing.local = numbers(replicas.worker, replicas.workers, replicas.per_worker);
      dealing.strided = true;
    }
    return;
  }
  dealing.splitter = v2_splitter(
      batch_sizes_for_worker(dealing.batch, replicas.workers, replicas.per_worker, replicas.worker));
  dealing.splitter_reason = "sizes in turn, across the borders of batches: policy " +
                            policy_name(dealing.sharding.applied) + " with a known batch size";
}

void split_balanced(Dealing& dealing, const std::vector<double>& weights) {
  const Replicas& replicas = dealing.replicas;
  const bool shared = replicas.workers == 1 || dealing.sharding.applied == AutoShardPolicy::kData;
  if (shared) {
    dealing.width = replicas.all();
    dealing.local = numbers(replicas.worker * replicas.per_worker, 1, replicas.per_worker);
  }
  dealing.splitter = balanced_splitter(dealing.width, weights);
  dealing.splitter_reason = weights.empty() ? "split=\"balanced\"" : "split=\"balanced\" with weights";
}

void split_nothing(Dealing& dealing) {
  dealing.whole = true;
  dealing.splitter = whole_splitter();
  dealing.unbatched = !has_rows(*dealing.node);
  if (!dealing.unbatched) dealing.batch = infer_batch_size(*dealing.node);
}

std::int64_t part_dim0(std::int64_t rows, const Dealing& dealing, Split split, bool weighted) {
  if (rows == kUnknownDim) return kUnknownDim;
  const std::int64_t all = dealing.replicas.all();
  if (split == Split::kTf && dealing.batch > 0) {
    // As recorded, also where policy DATA then cuts the batches the other way.
    const std::int64_t size = dealing.batch / all;
    return dealing.batch % all == 0 && rows % size == 0 ? size : kUnknownDim;
  }
  return rows % all == 0 && !weighted ? rows / all : kUnknownDim;
}

}  // namespace

std::int64_t Dealing::place_of(std::int64_t replica) const {
  if (!strided) return replica;
  return replica % replicas.per_worker * replicas.workers + replica / replicas.per_worker;
}

IterContext Dealing::context_of_stream(IterContext context) const {
  const bool others_differ = from_function || sharding.applied == AutoShardPolicy::kFile ||
                             sharding.applied == AutoShardPolicy::kHint;
  context.stream = others_differ ? static_cast<std::uint64_t>(replicas.worker) : 0;
  return context;
}

Dealing deal_out(const NodePtr& node, AutoShardPolicy policy, const Replicas& replicas, Split split,
                 const std::vector<double>& weights) {
  Dealing dealing;
  dealing.replicas = replicas;
  dealing.sharding = auto_shard(node, policy, replicas.workers, replicas.worker);
  dealing.node = dealing.sharding.node;
  dealing.width = replicas.per_worker;
  dealing.local = numbers(0, 1, replicas.per_worker);
  if (replicas.all() == 1) {
    split_nothing(dealing);
    dealing.splitter_reason = "one replica takes every batch whole";
    return dealing;
  }
  require_rows(*node, "distribute_dataset");
  dealing.batch = infer_batch_size(*node);
  if (split == Split::kTf) {
    split_as_tf(dealing);
  } else {
    split_balanced(dealing, weights);
  }
  return dealing;
}

Dealing deal_whole(const NodePtr& node, const Replicas& replicas) {
  Dealing dealing;
  dealing.node = node;
  dealing.replicas = replicas;
  dealing.sharding = {node, AutoShardPolicy::kOff, "the function that makes the dataset shards it"};
  dealing.from_function = true;
  dealing.width = replicas.per_worker;
  dealing.local = numbers(0, 1, replicas.per_worker);
  split_nothing(dealing);
  dealing.splitter_reason = "the function that makes the dataset batches it";
  return dealing;
}

ElementSpec part_spec(const ElementSpec& spec, const Dealing& dealing, Split split, bool weighted) {
  if (dealing.whole) return spec;
  ElementSpec part = spec;
  for (LeafSpec& leaf : part.leaves) {
    leaf = replace_dim0(leaf, part_dim0(dim0(leaf).value_or(kUnknownDim), dealing, split, weighted));
  }
  return part;
}

bool statically_shaped(const ElementSpec& spec) {
  const auto known = [](std::int64_t dim) { return dim != kUnknownDim; };
  return std::all_of(spec.leaves.begin(), spec.leaves.end(), [&](const LeafSpec& leaf) {
    const std::optional<Dims>* shape = nullptr;
    if (const auto* dense = std::get_if<TensorSpec>(&leaf)) shape = &dense->shape;
    if (const auto* strings = std::get_if<StringSpec>(&leaf)) shape = &strings->shape;
    if (shape != nullptr) return shape->has_value() && std::all_of((*shape)->begin(), (*shape)->end(), known);
    return known(dim0(leaf).value_or(0));
  });
}

}  // namespace torch_distinput
