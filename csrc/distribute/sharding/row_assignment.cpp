// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/sharding/row_assignment.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

#include "distribute/splitting/batch_sizes.h"
#include "distribute/splitting/infer_batch_size.h"
#include "distribute/splitting/tail.h"

namespace torch_distinput {
namespace {

std::vector<std::int64_t> numbers(std::int64_t first, std::int64_t step, std::int64_t count) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(count));
  for (auto& number : result) number = std::exchange(first, first + step);
  return result;
}

/// Chooses the splitter that tf.distribute would use.
void split_as_tf(RowAssignment& assignment) {
  const Replicas& replicas = assignment.replicas;
  const bool data = assignment.sharding.applied == AutoShardPolicy::kData;
  // Ranks that keep the parts k mod `ranks` of one stream need a fixed number of parts for each batch.
  if (data || assignment.batch <= 0) {
    assignment.splitter = legacy_splitter(replicas.all());
    assignment.splitter_reason = data ? "policy DATA needs a fixed number of parts a batch"
                                 : assignment.schedule
                                     ? "the batch size changes, so each batch is cut as it comes"
                                     : "the batch size cannot be inferred, so each batch is cut as it comes";
    if (data) {
      assignment.width = replicas.all();
      assignment.local = numbers(replicas.rank, replicas.ranks, replicas.per_rank);
      assignment.strided = true;
    }
    return;
  }
  assignment.splitter =
      v2_splitter(batch_sizes_for_worker(assignment.batch, replicas.ranks, replicas.per_rank, replicas.rank));
  assignment.splitter_reason = "sizes in turn, across the borders of batches: policy " +
                               policy_name(assignment.sharding.applied) + " with a known batch size";
}

/// `weights`: of all replicas. The stream of a rank's own is divided among its own replicas only.
void split_balanced(RowAssignment& assignment, Split split, std::vector<double> weights) {
  const Replicas& replicas = assignment.replicas;
  const std::int64_t first = replicas.rank * replicas.per_rank;
  const bool shared = replicas.ranks == 1 || assignment.sharding.applied == AutoShardPolicy::kData;
  if (shared) {
    assignment.width = replicas.all();
    assignment.local = numbers(first, 1, replicas.per_rank);
  } else if (!weights.empty()) {
    weights = {weights.begin() + first, weights.begin() + first + replicas.per_rank};
  }
  assignment.splitter = balanced_splitter(assignment.width, weights);
  assignment.splitter_reason = assignment.streams       ? "each rank makes batches of its share of the rows"
                               : split == Split::kLanes ? "split=\"lanes\": by the lanes of the rows"
                               : weights.empty()        ? "split=\"balanced\""
                                                        : "split=\"balanced\" with weights";
}

/// Makes this rank's pipeline of its share of the streams that `assignment.sharding` cuts.
void deal_to_ranks(RowAssignment& assignment, const std::vector<double>& weights) {
  const Replicas& replicas = assignment.replicas;
  StreamDeal dealt;
  dealt.cut = assignment.sharding.streams;
  dealt.batch = rows_a_batch(assignment.node);
  const auto rows = balanced_splitter(replicas.all(), weights)->shares(dealt.batch, 0, replicas.all());
  for (auto own = rows.begin(); own != rows.end(); own += replicas.per_rank)
    dealt.shares.push_back(std::accumulate(own, own + replicas.per_rank, std::int64_t{0}));
  dealt.start = streams_of_rank(dealt.cut->most(), dealt.shares, replicas.rank);
  assignment.sharding.reason = describe_deal(dealt);
  assignment.streams = std::move(dealt);
  assignment.node = rank_pipeline(assignment.node, *assignment.streams, replicas.rank);
}

std::int64_t own_share(const RowAssignment& assignment) {
  return std::max<std::int64_t>(
      assignment.streams->shares[static_cast<std::size_t>(assignment.replicas.rank)], 1);
}

/// `node`: as the user made it; what types its functions make need not be found again for copies of it.
void split_nothing(RowAssignment& assignment, const Node& node) {
  assignment.whole = true;
  assignment.splitter = whole_splitter();
  assignment.unbatched = !has_rows(node);
  if (assignment.unbatched) return;
  assignment.batch = infer_batch_size(node);
  assignment.schedule = schedule_of(*assignment.node);
}

std::int64_t part_dim0(std::int64_t rows, const RowAssignment& assignment, Split split, bool weighted) {
  if (rows == kUnknownDim) return kUnknownDim;
  const std::int64_t all = assignment.replicas.all();
  if (split == Split::kTf && assignment.batch > 0 && !assignment.streams) {
    // As recorded of tf.distribute, even if policy DATA then cuts the batches in another way.
    const std::int64_t size = assignment.batch / all;
    return assignment.batch % all == 0 && rows % size == 0 ? size : kUnknownDim;
  }
  return rows % all == 0 && !weighted ? rows / all : kUnknownDim;
}

}  // namespace

std::int64_t RowAssignment::place_of(std::int64_t replica) const {
  if (!strided) return replica;
  return replica % replicas.per_rank * replicas.ranks + replica / replicas.per_rank;
}

IterContext RowAssignment::context_of_stream(IterContext context) const {
  const bool others_differ = from_function || sharding.applied == AutoShardPolicy::kFile ||
                             sharding.applied == AutoShardPolicy::kHint || streams;
  context.stream = others_differ ? static_cast<std::uint64_t>(replicas.rank) : 0;
  return context;
}

RowAssignment assign_rows(const NodePtr& node, AutoShardPolicy policy, const Replicas& replicas, Split split,
                          const std::vector<double>& weights) {
  RowAssignment assignment;
  assignment.replicas = replicas;
  assignment.sharding = auto_shard(node, policy, replicas.ranks, replicas.rank);
  assignment.node = assignment.sharding.node;
  if (assignment.sharding.streams) deal_to_ranks(assignment, weights);
  assignment.width = replicas.per_rank;
  assignment.local = numbers(0, 1, replicas.per_rank);
  if (replicas.all() == 1) {
    split_nothing(assignment, *node);
    assignment.splitter_reason = "one replica takes every batch whole";
    return assignment;
  }
  require_rows(*node, "distribute_dataset");
  assignment.batch = infer_batch_size(*node);
  if (assignment.streams && assignment.batch > 0) assignment.batch = own_share(assignment);
  assignment.schedule = schedule_of(*assignment.node);
  // As many rows as a rank's replicas take in a step are its batch already.
  if (split == Split::kTf && !assignment.streams) {
    split_as_tf(assignment);
  } else {
    split_balanced(assignment, split, weights);
  }
  return assignment;
}

void check_schedule(const RowAssignment& assignment, Split split, Tail tail) {
  if (!has_changing_batches(*assignment.node)) return;
  const std::string what = "distribute_dataset: with batches whose size changes with their number, ";
  const bool fills = tail == Tail::kPadded || tail == Tail::kRepeat || tail == Tail::kDrop;
  if (assignment.replicas.ranks > 1 && assignment.sharding.applied != AutoShardPolicy::kData) {
    const char* const advice = " needs ranks that share one stream, but the policy is applied as ";
    const std::string policy = policy_name(assignment.sharding.applied) + "; use auto_shard_policy DATA";
    TORCH_CHECK_VALUE(split != Split::kTf, what, "`split` \"tf\"", advice, policy,
                      ", or `split` \"balanced\".");
    TORCH_CHECK_VALUE(!fills, what, "`tail` \"", tail_name(tail), "\"", advice, policy,
                      ", or another `tail`.");
  }
  TORCH_CHECK_VALUE(!fills || assignment.schedule, what, "`tail` \"", tail_name(tail),
                    "\" must know the full size of each batch, but `", assignment.node->describe(),
                    "` or an op before it may leave out or move batches; put such ops before `batch`.");
}

RowAssignment assign_whole(const NodePtr& node, const Replicas& replicas) {
  RowAssignment assignment;
  assignment.node = node;
  assignment.replicas = replicas;
  assignment.sharding = {node, AutoShardPolicy::kOff, "the function that makes the dataset shards it"};
  assignment.from_function = true;
  assignment.width = replicas.per_rank;
  assignment.local = numbers(0, 1, replicas.per_rank);
  split_nothing(assignment, *node);
  assignment.splitter_reason = "the function that makes the dataset batches it";
  return assignment;
}

std::string split_name(Split split) {
  switch (split) {
    case Split::kTf:
      return "tf";
    case Split::kBalanced:
      return "balanced";
    case Split::kLanes:
      return "lanes";
  }
  return {};
}

std::string batch_size_text(const RowAssignment& assignment) {
  if (assignment.streams) return std::to_string(assignment.streams->batch);
  return assignment.schedule ? assignment.schedule->describe() : std::to_string(assignment.batch);
}

ElementSpec part_spec(const ElementSpec& spec, const RowAssignment& assignment, Split split, bool weighted) {
  if (assignment.whole) return spec;
  ElementSpec part = spec;
  for (LeafSpec& leaf : part.leaves) {
    leaf = replace_dim0(leaf, part_dim0(dim0(leaf).value_or(kUnknownDim), assignment, split, weighted));
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
