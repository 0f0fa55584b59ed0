// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/sharding/deal_streams.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "distribute/sharding/change_inputs.h"
#include "distribute/sharding/streams_node.h"
#include "execution/scheduled_batches.h"

namespace torch_distinput {
namespace {

NodePtr replace_batch(const NodePtr& node, const Node* batch, std::int64_t rows, const NodePtr& input) {
  if (node.get() == batch) return dynamic_cast<const SchedulesBatches&>(*batch).with_batch_size(input, rows);
  return change_inputs(node, [&](const NodePtr& below) { return replace_batch(below, batch, rows, input); });
}

}  // namespace

std::int64_t rows_a_batch(const NodePtr& node) { return last_batch(*node)->batch_size().value(); }

StreamStates streams_of_rank(std::int64_t count, const std::vector<std::int64_t>& shares, std::int64_t rank) {
  const std::int64_t rows = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  const std::int64_t before = std::accumulate(shares.begin(), shares.begin() + rank, std::int64_t{0});
  // The first stream that belongs to row `row` or a later one.
  const auto first_of = [&](std::int64_t row) {
    return static_cast<std::int64_t>((static_cast<__int128>(row) * count + rows - 1) / rows);
  };
  StreamStates states;
  states.count = count;
  states.begin = first_of(before);
  states.end = first_of(before + shares[static_cast<std::size_t>(rank)]);
  return states;
}

NodePtr rank_pipeline(const NodePtr& node, const StreamDeal& deal, std::int64_t rank) {
  // A rank without rows has no streams, but its batches must have some size.
  const std::int64_t rows = std::max<std::int64_t>(deal.shares[static_cast<std::size_t>(rank)], 1);
  return replace_batch(node, last_batch(*node), rows, streams_node(deal.cut, deal.start));
}

std::int64_t cardinality_in_streams(const NodePtr& node, const StreamDeal& deal) {
  return replace_batch(node, last_batch(*node), deal.batch, deal.cut->uncounted())->checked_cardinality();
}

std::string describe_deal(const StreamDeal& dealt) {
  const std::int64_t count = dealt.start.count;
  std::int64_t least = count;
  std::int64_t most = 0;
  for (std::int64_t rank = 0; rank < std::ssize(dealt.shares); ++rank) {
    const StreamStates own = streams_of_rank(count, dealt.shares, rank);
    least = std::min(least, own.end - own.begin);
    most = std::max(most, own.end - own.begin);
  }
  std::string a_rank = std::to_string(least);
  if (most > least) a_rank += " to " + std::to_string(most);
  return "each byte is read once: " + std::to_string(count) + " streams (" + dealt.cut->describe() + "), " +
         a_rank + " a rank";
}

}  // namespace torch_distinput
