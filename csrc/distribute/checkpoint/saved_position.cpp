// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/checkpoint/saved_position.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "distribute/checkpoint/check_together.h"
#include "distribute/checkpoint/resumed_streams_node.h"
#include "distribute/checkpoint/stream_positions.h"
#include "distribute/sharding/auto_shard.h"

namespace torch_distinput {
namespace {

constexpr const char* kSavedPositionCall = "DistributedIterator.load";

/// The number of ranks of the run that saved `state`, under the key `workers`, as in all earlier states. It
/// is saved only if ranks read streams of their own; a state without it is of one stream that all ranks read.
std::int64_t ranks_in(const State& state) {
  if (!state.has("workers")) return 1;
  const std::int64_t ranks = StateReader(state, kSavedPositionCall).integer("workers");
  TORCH_CHECK_VALUE(ranks >= 1 && ranks <= kMaxCounted, kSavedPositionCall,
                    ": the saved `workers` must be in [1, ", kMaxCounted, "], but is ", ranks, ".");
  return ranks;
}
std::int64_t rank_in(const State& state) {
  return state.has("worker") ? StateReader(state, kSavedPositionCall).count("worker", ranks_in(state) - 1)
                             : 0;
}
std::string name(std::int64_t rank, std::int64_t ranks) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(ranks);
}

/// The states in the order of their ranks, one for each.
std::vector<State> order(const State::List& given) {
  TORCH_CHECK_VALUE(!given.empty(), kSavedPositionCall, ": the list of states is empty.");
  const std::int64_t ranks = ranks_in(given.front());
  // A shared stream leaves the same state on every rank.
  if (ranks == 1) return {given.front()};
  std::map<std::int64_t, const State*> found;
  for (const State& state : given) {
    TORCH_CHECK_VALUE(ranks_in(state) == ranks, kSavedPositionCall, ": the list has states of runs with ",
                      ranks, " and with ", ranks_in(state), " ranks.");
    const std::int64_t rank = rank_in(state);
    TORCH_CHECK_VALUE(found.emplace(rank, &state).second, kSavedPositionCall,
                      ": the list must have one state of each rank, but has two of ", name(rank, ranks), ".");
  }
  std::vector<State> states;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const auto state = found.find(rank);
    TORCH_CHECK_VALUE(state != found.end(), kSavedPositionCall, ": the list has no state of ",
                      name(rank, ranks), "; pass the states of all ranks of that run.");
    states.push_back(*state->second);
  }
  return states;
}

NodePtr rest_of(const Distribution& distribution, NodePtr like, const std::vector<State>& states,
                const Replicas& replicas);

/// What rank `replicas.rank` of the earlier run read: files of its own, or, as the only one, everything.
Sharding sharding_then(const NodePtr& node, const Replicas& replicas) {
  if (replicas.ranks == 1) return {node, AutoShardPolicy::kData, ""};
  // Not the policy of this run, which may assign the data in another way.
  Sharding sharding = auto_shard(node, AutoShardPolicy::kAuto, replicas.ranks, replicas.rank);
  TORCH_CHECK_VALUE(
      sharding.applied == AutoShardPolicy::kFile, kSavedPositionCall, ": saved by ", replicas.ranks,
      " ranks with files of their own, but here files cannot be assigned: ", sharding.reason, ".");
  return sharding;
}

/// The rest of the stream of the rank that saved `state`.
ResumedStream rest_stream(const Distribution& distribution, const State& state) {
  Distribution earlier = distribution;
  RowAssignment& then = earlier.assignment;
  then.replicas.ranks = ranks_in(state);
  then.replicas.rank = rank_in(state);
  then.sharding = sharding_then(distribution.node, then.replicas);
  then.node = then.sharding.node;
  if (state.has("rest"))
    then.node = rest_of(distribution, then.node, order(StateReader(state, kSavedPositionCall).list("rest")),
                        then.replicas);
  return {then.node, read_position(earlier, state).start, then.context_of_stream({}).stream};
}

/// The pipeline of rank `replicas.rank` over the rests of the streams of the ranks that saved `states`.
/// It has the type of `like`.
NodePtr rest_of(const Distribution& distribution, NodePtr like, const std::vector<State>& states,
                const Replicas& replicas) {
  const auto [ranks, rank, per_rank] = replicas;
  const auto before = std::ssize(states);
  std::vector<ResumedStream> streams;
  Share share;
  if (ranks <= before) {
    for (std::int64_t stream = rank; stream < before; stream += ranks)
      streams.push_back(rest_stream(distribution, states[static_cast<std::size_t>(stream)]));
  } else {
    const std::int64_t stream = rank % before;
    streams.push_back(rest_stream(distribution, states[static_cast<std::size_t>(stream)]));
    share = {rank / before, (ranks - 1 - stream) / before + 1, /*shared=*/true};
  }
  return resumed_streams_node(std::move(like), std::move(streams), share);
}

DistributionPtr with_rest(const Distribution& distribution, const std::vector<State>& states) {
  auto rest = std::make_shared<Distribution>(distribution);
  // Ranks that share a stream read all of it.
  const Replicas readers = distribution.one_stream() ? Replicas{} : distribution.assignment.replicas;
  rest->assignment.node = rest_of(distribution, distribution.assignment.node, states, readers);
  rest->rest = State(State::List(states.begin(), states.end()));
  return rest;
}

/// Whether the library knows which rank reads which rows under policy `name`.
bool assigns_rows(const std::string& name) {
  return name == policy_name(AutoShardPolicy::kFile) || name == policy_name(AutoShardPolicy::kData);
}

void check_may_change_world_size(const Distribution& distribution, const std::vector<State>& states) {
  const std::string now = policy_name(distribution.assignment.sharding.applied);
  const State& saved = states.front();
  const std::string then = saved.has("policy") ? saved.at("policy").as_string() : now;
  TORCH_CHECK_VALUE(
      distribution.node != nullptr && assigns_rows(now) && assigns_rows(then), kSavedPositionCall,
      ": saved by ", states.size(), " ranks, but here there are ", distribution.assignment.replicas.ranks,
      ". With ",
      distribution.node ? "policy " + (assigns_rows(now) ? then : now) : "a dataset from a function",
      " only your code knows which rank read which rows: continue with ", states.size(),
      " ranks, or start the epoch again.");
}

/// The position at which the ranks of this run continue the epoch of a run with `states.size()` ranks.
SavedPosition change_world_size(const DistributionPtr& distribution, const std::vector<State>& states) {
  check_may_change_world_size(*distribution, states);
  check_together(states, kSavedPositionCall,
                 [](const State& state) { return "rank " + std::to_string(rank_in(state)); });
  SavedPosition position{with_rest(*distribution, states), {}};
  const StateReader first(states.front(), kSavedPositionCall);
  position.at.epoch = first.count("epoch", kMaxEpochs);
  read_seed(states.front(), position.at);
  position.at.start.position.step = first.count("step");
  position.at.start.upstream = std::make_shared<const Upstream>(start_of_resumed_streams());
  // The rows before are counted once: on every rank of one stream, else on rank 0 alone.
  if (distribution->one_stream() || distribution->assignment.replicas.rank == 0)
    for (const State& state : states)
      position.at.start.position.row += StateReader(state, kSavedPositionCall).count("row");
  return position;
}

SavedPosition go_on(const DistributionPtr& distribution, const State& state) {
  if (!state.has("rest")) return {distribution, read_position(*distribution, state)};
  DistributionPtr rest = with_rest(*distribution, order(StateReader(state, kSavedPositionCall).list("rest")));
  EpochPosition at = read_position(*rest, state);
  return {std::move(rest), std::move(at)};
}

}  // namespace

State save_position(const SavedPosition& position) {
  const Distribution& distribution = *position.distribution;
  State state = write_position(distribution, position.at);
  if (distribution.assignment.streams) {
    add_streams(state, position);
    return state;
  }
  if (distribution.rest) state.set("rest", *distribution.rest);
  const Replicas& replicas = distribution.assignment.replicas;
  if (replicas.ranks > 1 && !distribution.one_stream()) {
    state.set("workers", replicas.ranks);
    state.set("worker", replicas.rank);
    state.set("policy", policy_name(distribution.assignment.sharding.applied));
  }
  return state;
}

SavedPosition load_position(const DistributionPtr& distribution, const State& state) {
  const bool all = std::holds_alternative<State::List>(state.value());
  if (const auto given = all ? state.as_list() : State::List{state};
      distribution->assignment.streams || std::any_of(given.begin(), given.end(), is_of_streams))
    return load_streams(distribution, given);
  const std::vector<State> states = all ? order(state.as_list()) : std::vector<State>{state};
  const Replicas& replicas = distribution->assignment.replicas;
  const std::int64_t ranks = ranks_in(states.front());
  const std::int64_t here = distribution->one_stream() ? 1 : replicas.ranks;
  if (all || ranks == 1) {
    if (ranks != here) return change_world_size(distribution, states);
    return go_on(distribution, states[here == 1 ? 0 : static_cast<std::size_t>(replicas.rank)]);
  }
  TORCH_CHECK_VALUE(ranks == here, kSavedPositionCall, ": saved by ", name(rank_in(state), ranks),
                    ", but here there are ", replicas.ranks,
                    " ranks; pass the states of all ranks of that run, as a list.");
  TORCH_CHECK_VALUE(rank_in(state) == replicas.rank, kSavedPositionCall, ": saved by ",
                    name(rank_in(state), ranks), ", but this is rank ", replicas.rank,
                    "; pass its own state, or those of all ranks as a list.");
  return go_on(distribution, state);
}

}  // namespace torch_distinput
