// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/checkpoint/saved_position.h"

#include <c10/util/Exception.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/state_reader.h"
#include "distribute/checkpoint/resumed_streams_node.h"
#include "distribute/sharding/auto_shard.h"

namespace torch_distinput {
namespace {

constexpr const char* kSavedPositionCall = "DistributedIterator.load";

/// The number of workers in `state`. It is saved only if workers read streams of their own; a state without
/// it is of one stream that all workers read.
std::int64_t workers_of(const State& state) {
  if (!state.has("workers")) return 1;
  const std::int64_t workers = StateReader(state, kSavedPositionCall).integer("workers");
  TORCH_CHECK_VALUE(workers >= 1 && workers <= kMaxCounted, kSavedPositionCall,
                    ": the saved `workers` must be in [1, ", kMaxCounted, "], but is ", workers, ".");
  return workers;
}
std::int64_t worker_of(const State& state) {
  return state.has("worker") ? StateReader(state, kSavedPositionCall).count("worker", workers_of(state) - 1)
                             : 0;
}
std::string name(std::int64_t worker, std::int64_t workers) {
  return "worker " + std::to_string(worker) + " of " + std::to_string(workers);
}

/// The states in the order of their workers, one for each.
std::vector<State> order(const State::List& given) {
  TORCH_CHECK_VALUE(!given.empty(), kSavedPositionCall, ": the list of states is empty.");
  const std::int64_t workers = workers_of(given.front());
  // A shared stream leaves the same state on every worker.
  if (workers == 1) return {given.front()};
  std::map<std::int64_t, const State*> found;
  for (const State& state : given) {
    TORCH_CHECK_VALUE(workers_of(state) == workers, kSavedPositionCall, ": the list has states of runs with ",
                      workers, " and with ", workers_of(state), " workers.");
    const std::int64_t worker = worker_of(state);
    TORCH_CHECK_VALUE(found.emplace(worker, &state).second, kSavedPositionCall,
                      ": the list must have one state of each worker, but has two of ", name(worker, workers),
                      ".");
  }
  std::vector<State> states;
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    const auto state = found.find(worker);
    TORCH_CHECK_VALUE(state != found.end(), kSavedPositionCall, ": the list has no state of ",
                      name(worker, workers), "; pass the states of all workers of that run.");
    states.push_back(*state->second);
  }
  return states;
}

void check_together(const std::vector<State>& states) {
  for (const State& state : states) {
    for (const char* field : {"epoch", "step", "seed"}) {
      // Before the first step no seed was agreed on; worker 0's is used then.
      const State& here = StateReader(state, kSavedPositionCall).at(field);
      const State& first = StateReader(states.front(), kSavedPositionCall).at(field);
      if (state.at("step") == State(0) && std::string_view(field) == "seed") continue;
      TORCH_CHECK_VALUE(here == first, kSavedPositionCall,
                        ": the states must be saved after the same step, but `", field, "` is ", brief(first),
                        " in that of worker 0 and ", brief(here), " in that of worker ", worker_of(state),
                        ".");
    }
  }
}

NodePtr rest_of(const Distribution& distribution, NodePtr like, const std::vector<State>& states,
                const Replicas& replicas);

/// What worker `replicas.worker` of the earlier run read: files of its own, or, as the only one, everything.
Sharding sharding_then(const NodePtr& node, const Replicas& replicas) {
  if (replicas.workers == 1) return {node, AutoShardPolicy::kData, ""};
  // Not the policy of this run, which may assign the data in another way.
  Sharding sharding = auto_shard(node, AutoShardPolicy::kAuto, replicas.workers, replicas.worker);
  TORCH_CHECK_VALUE(
      sharding.applied == AutoShardPolicy::kFile, kSavedPositionCall, ": saved by ", replicas.workers,
      " workers with files of their own, but here files cannot be assigned: ", sharding.reason, ".");
  return sharding;
}

/// The rest of the stream of the worker that saved `state`.
ResumedStream rest_stream(const Distribution& distribution, const State& state) {
  Distribution earlier = distribution;
  RowAssignment& then = earlier.assignment;
  then.replicas.workers = workers_of(state);
  then.replicas.worker = worker_of(state);
  then.sharding = sharding_then(distribution.node, then.replicas);
  then.node = then.sharding.node;
  if (state.has("rest"))
    then.node = rest_of(distribution, then.node, order(StateReader(state, kSavedPositionCall).list("rest")),
                        then.replicas);
  return {then.node, read_position(earlier, state).start, then.context_of_stream({}).stream};
}

/// The pipeline of worker `replicas.worker` over the rests of the streams of the workers that saved `states`.
/// It has the type of `like`.
NodePtr rest_of(const Distribution& distribution, NodePtr like, const std::vector<State>& states,
                const Replicas& replicas) {
  const auto [workers, worker, per_worker] = replicas;
  const auto before = std::ssize(states);
  std::vector<ResumedStream> streams;
  Share share;
  if (workers <= before) {
    for (std::int64_t stream = worker; stream < before; stream += workers)
      streams.push_back(rest_stream(distribution, states[static_cast<std::size_t>(stream)]));
  } else {
    const std::int64_t stream = worker % before;
    streams.push_back(rest_stream(distribution, states[static_cast<std::size_t>(stream)]));
    share = {worker / before, (workers - 1 - stream) / before + 1, /*shared=*/true};
  }
  return resumed_streams_node(std::move(like), std::move(streams), share);
}

DistributionPtr with_rest(const Distribution& distribution, const std::vector<State>& states) {
  auto rest = std::make_shared<Distribution>(distribution);
  // Workers that share a stream read all of it.
  const Replicas readers = distribution.one_stream() ? Replicas{} : distribution.assignment.replicas;
  rest->assignment.node = rest_of(distribution, distribution.assignment.node, states, readers);
  rest->rest = State(State::List(states.begin(), states.end()));
  return rest;
}

/// Whether the library knows which worker reads which rows under policy `name`.
bool assigns_rows(const std::string& name) {
  return name == policy_name(AutoShardPolicy::kFile) || name == policy_name(AutoShardPolicy::kData);
}

void check_may_change_workers(const Distribution& distribution, const std::vector<State>& states) {
  const std::string now = policy_name(distribution.assignment.sharding.applied);
  const State& saved = states.front();
  const std::string then = saved.has("policy") ? saved.at("policy").as_string() : now;
  TORCH_CHECK_VALUE(
      distribution.node != nullptr && assigns_rows(now) && assigns_rows(then), kSavedPositionCall,
      ": saved by ", states.size(), " workers, but here there are ", distribution.assignment.replicas.workers,
      ". With ",
      distribution.node ? "policy " + (assigns_rows(now) ? then : now) : "a dataset from a function",
      " only your code knows which worker read which rows: continue with ", states.size(),
      " workers, or start the epoch again.");
}

/// The position at which the workers of this run continue the epoch of a run with `states.size()` workers.
SavedPosition change_workers(const DistributionPtr& distribution, const std::vector<State>& states) {
  check_may_change_workers(*distribution, states);
  check_together(states);
  SavedPosition position{with_rest(*distribution, states), {}};
  const StateReader first(states.front(), kSavedPositionCall);
  position.at.epoch = first.count("epoch", kMaxEpochs);
  read_seed(states.front(), position.at);
  position.at.start.position.step = first.count("step");
  position.at.start.upstream = std::make_shared<const Upstream>(start_of_resumed_streams());
  // The rows before are counted once: on every worker of one stream, else on worker 0 alone.
  if (distribution->one_stream() || distribution->assignment.replicas.worker == 0)
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
  if (distribution.rest) state.set("rest", *distribution.rest);
  const Replicas& replicas = distribution.assignment.replicas;
  if (replicas.workers > 1 && !distribution.one_stream()) {
    state.set("workers", replicas.workers);
    state.set("worker", replicas.worker);
    state.set("policy", policy_name(distribution.assignment.sharding.applied));
  }
  return state;
}

SavedPosition load_position(const DistributionPtr& distribution, const State& state) {
  const bool all = std::holds_alternative<State::List>(state.value());
  const std::vector<State> states = all ? order(state.as_list()) : std::vector<State>{state};
  const Replicas& replicas = distribution->assignment.replicas;
  const std::int64_t workers = workers_of(states.front());
  const std::int64_t here = distribution->one_stream() ? 1 : replicas.workers;
  if (all || workers == 1) {
    if (workers != here) return change_workers(distribution, states);
    return go_on(distribution, states[here == 1 ? 0 : static_cast<std::size_t>(replicas.worker)]);
  }
  TORCH_CHECK_VALUE(workers == here, kSavedPositionCall, ": saved by ", name(worker_of(state), workers),
                    ", but here there are ", replicas.workers,
                    " workers; pass the states of all workers of that run, as a list.");
  TORCH_CHECK_VALUE(worker_of(state) == replicas.worker, kSavedPositionCall, ": saved by ",
                    name(worker_of(state), workers), ", but this is worker ", replicas.worker,
                    "; pass its own state, or those of all workers as a list.");
  return go_on(distribution, state);
}

}  // namespace torch_distinput
