// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/checkpoint/stream_positions.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "distribute/checkpoint/check_together.h"
#include "distribute/sharding/deal_streams.h"
#include "execution/sampled.h"

namespace torch_distinput {
namespace {

constexpr const char* kStreamPositionsCall = "DistributedIterator.load";

/// The states of the streams in the state of a pipeline's iterator, below those of the ops after them.
StreamStates streams_below(const State& iterator) {
  const State* at = &iterator;
  while (!at->has("streams")) at = &StateReader(*at, kStreamPositionsCall).at("input");
  return read_streams(at->at("streams"), kStreamPositionsCall);
}

/// Where the streams of the rank that saved `state` stand. Only a state from before the first step of an
/// iterator has no `input`.
StreamStates streams_in(const State& state) {
  const StateReader saved(state, kStreamPositionsCall);
  if (!saved.has("input")) return read_streams(saved.at("streams"), kStreamPositionsCall);
  return streams_below(StateReader(saved.at("input"), kStreamPositionsCall).at("state"));
}

std::int64_t ranks_in_streams(const State& state) {
  return StateReader(state, kStreamPositionsCall).count("ranks");
}

std::string name_of(const StreamStates& streams) {
  const std::string of_all = " of " + std::to_string(streams.count);
  if (streams.begin == streams.end) return "none" + of_all + " streams";
  return "streams " + std::to_string(streams.begin) + " to " + std::to_string(streams.end - 1) + of_all;
}

bool same_streams(const StreamStates& a, const StreamStates& b) {
  return a.count == b.count && a.begin == b.begin && a.end == b.end;
}

/// What the rank that saved a state read, and the state.
struct Saved {
  StreamStates streams;
  const State* state;
};

void check_saved(const Distribution& distribution, const State& state) {
  TORCH_CHECK_VALUE(is_of_streams(state) && distribution.assignment.streams, kStreamPositionsCall,
                    ": saved under ", is_of_streams(state) ? "policy STREAMS" : "another policy than STREAMS",
                    ", but here it is applied as ", policy_name(distribution.assignment.sharding.applied),
                    ": ", distribution.assignment.sharding.reason,
                    ". A position under policy STREAMS goes on under it only, and no other does.");
  check_position(distribution, state);
  const std::string& cut = StateReader(state, kStreamPositionsCall).text("cut");
  const std::string here = distribution.assignment.streams->cut->describe();
  TORCH_CHECK_VALUE(cut == here, kStreamPositionsCall, ": saved of streams of ", cut,
                    ", but here the pipeline is cut into ", here, ".");
}

/// The states in the order of their streams.
std::vector<Saved> in_order(const Distribution& distribution, const std::vector<State>& states) {
  TORCH_CHECK_VALUE(!states.empty(), kStreamPositionsCall, ": the list of states is empty.");
  std::vector<Saved> all;
  for (const State& state : states) {
    check_saved(distribution, state);
    all.push_back({streams_in(state), &state});
  }
  std::stable_sort(all.begin(), all.end(), [](const Saved& a, const Saved& b) {
    return std::pair(a.streams.begin, a.streams.end) < std::pair(b.streams.begin, b.streams.end);
  });
  return all;
}

void check_complete(const std::vector<Saved>& all) {
  std::int64_t next = 0;
  const std::int64_t count = all.front().streams.count;
  for (const Saved& saved : all) {
    TORCH_CHECK_VALUE(ranks_in_streams(*saved.state) == std::ssize(all), kStreamPositionsCall, ": saved by ",
                      ranks_in_streams(*saved.state), " ranks, but there are ", all.size(),
                      " states; pass the states of all ranks of one step.");
    TORCH_CHECK_VALUE(saved.streams.count == count && saved.streams.begin == next, kStreamPositionsCall,
                      ": the states must have each of ", count, " streams once, but where stream ", next,
                      " should follow, there is a state of ", name_of(saved.streams),
                      "; pass the states of all ranks of one step.");
    next = saved.streams.end;
  }
  TORCH_CHECK_VALUE(next == count, kStreamPositionsCall, ": no state has the streams ", next, " to ",
                    count - 1, "; pass the states of all ranks of that run, as a list.");
}

/// A state of one of several ranks is for the rank that has the same streams.
void check_own(const StreamDeal& here, std::int64_t rank, const Saved& saved) {
  const std::int64_t ranks = ranks_in_streams(*saved.state);
  const StreamStates own = streams_of_rank(saved.streams.count, here.shares, rank);
  TORCH_CHECK_VALUE(ranks == std::ssize(here.shares) && same_streams(saved.streams, own),
                    kStreamPositionsCall, ": saved by one of ", ranks, " ranks, which read ",
                    name_of(saved.streams), ", but this is rank ", rank, " of ", here.shares.size(),
                    ", which reads ", name_of(own), "; pass the states of all ranks of that run, as a list.");
}

/// `distribution` with the streams of this rank where `start` says that they stand.
DistributionPtr starting_from(const Distribution& distribution, StreamStates start) {
  auto started = std::make_shared<Distribution>(distribution);
  RowAssignment& assignment = started->assignment;
  assignment.streams->start = std::move(start);
  assignment.node = rank_pipeline(distribution.node, *assignment.streams, assignment.replicas.rank);
  return started;
}

/// The streams of rank `rank` of this run, where the states say that they stand.
StreamStates dealt_anew(const StreamDeal& deal_here, std::int64_t rank, const std::vector<Saved>& all) {
  StreamStates own = streams_of_rank(all.front().streams.count, deal_here.shares, rank);
  const auto is_own = [&](std::int64_t stream) { return own.begin <= stream && stream < own.end; };
  for (const Saved& saved : all) {
    own.turns = std::max(own.turns, saved.streams.turns);
    // What those that have ended have drawn is counted once, as the rows before are.
    if (rank == 0) add_counts(own.sampled, saved.streams.sampled);
    std::copy_if(saved.streams.ended.begin(), saved.streams.ended.end(),
                 std::inserter(own.ended, own.ended.end()), is_own);
    std::copy_if(saved.streams.begun.begin(), saved.streams.begun.end(),
                 std::inserter(own.begun, own.begun.end()),
                 [&](const auto& begun) { return is_own(begun.first); });
  }
  return own;
}

/// Whether the ranks of this run read what those of the run that saved `all` read.
bool same_deal(const StreamDeal& here, const std::vector<Saved>& all) {
  if (all.size() != here.shares.size()) return false;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const StreamStates& then = all[rank].streams;
    if (!same_streams(then, streams_of_rank(then.count, here.shares, static_cast<std::int64_t>(rank))))
      return false;
  }
  return true;
}

/// The position of this rank in its own state, `saved`.
SavedPosition go_on_in_streams(const DistributionPtr& distribution, const Saved& saved) {
  const StateReader fields(*saved.state, kStreamPositionsCall);
  const DistributionPtr started =
      fields.has("streams")
          ? starting_from(*distribution, read_streams(fields.at("streams"), kStreamPositionsCall))
          : starting_from(*distribution,
                          streams_of_rank(saved.streams.count, distribution->assignment.streams->shares,
                                          distribution->assignment.replicas.rank));
  return {started, read_position(*started, *saved.state)};
}

}  // namespace

bool is_of_streams(const State& state) {
  return state.has("policy") && state.at("policy") == State(policy_name(AutoShardPolicy::kStreams));
}

void add_streams(State& state, const SavedPosition& position) {
  const StreamDeal& dealt = *position.distribution->assignment.streams;
  state.set("policy", policy_name(AutoShardPolicy::kStreams));
  state.set("ranks", static_cast<std::int64_t>(dealt.shares.size()));
  state.set("cut", dealt.cut->describe());
  const bool from_start = dealt.start.begun.empty() && dealt.start.ended.empty();
  if (!position.at.start.upstream || !from_start) state.set("streams", dealt.start.write());
}

std::vector<std::int64_t> sampled_in_streams(const State& state) { return streams_in(state).all_sampled(); }

SavedPosition load_streams(const DistributionPtr& distribution, const std::vector<State>& states) {
  const std::vector<Saved> all = in_order(*distribution, states);
  const StreamDeal& here = *distribution->assignment.streams;
  const std::int64_t rank = distribution->assignment.replicas.rank;
  if (all.size() == 1 && ranks_in_streams(states.front()) > 1) {
    check_own(here, rank, all.front());
    return go_on_in_streams(distribution, all.front());
  }
  check_complete(all);
  check_together(states, kStreamPositionsCall, [](const State& state) { return name_of(streams_in(state)); });
  if (same_deal(here, all)) return go_on_in_streams(distribution, all[static_cast<std::size_t>(rank)]);
  SavedPosition position{starting_from(*distribution, dealt_anew(here, rank, all)), {}};
  const StateReader first(states.front(), kStreamPositionsCall);
  position.at.epoch = first.count("epoch", kMaxEpochs);
  read_seed(states.front(), position.at);
  position.at.start.position.step = first.count("step");
  // The rows before are counted once.
  if (rank == 0) {
    for (const State& state : states)
      position.at.start.position.row += StateReader(state, kStreamPositionsCall).count("row");
  }
  return position;
}

}  // namespace torch_distinput
