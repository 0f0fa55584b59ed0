// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/checkpoint/position_state.h"

#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/identity.h"

namespace torch_distinput {
namespace {

constexpr PositionKind kKind{"torch_distinput.DistributedIterator", /*version=*/1};
constexpr const char* kPositionStateCall = "DistributedIterator.load";

State write_split(const SplitPosition& split) {
  State state;
  state.set("element", split.element);
  state.set("row", split.row);
  state.set("part", split.part);
  state.set("part_rows", split.part_rows);
  state.set("ended", split.ended);
  return state;
}

/// `most_rows`: rows that were delivered before. `same_split`: the position was saved with the same splitter,
/// which cuts each element in `parts` parts, so it may be between two parts; otherwise only the number of
/// rows before counts.
SplitPosition read_split(const State& state, std::int64_t most_rows, bool same_split, std::int64_t parts) {
  const StateReader saved(state, kPositionStateCall);
  const SplitPosition split{.element = saved.count("element"),
                            .row = saved.count("row", most_rows),
                            .part = same_split ? saved.count("part", parts - 1) : saved.count("part"),
                            .part_rows = saved.count("part_rows", most_rows),
                            .ended = saved.flag("ended")};
  if (same_split) return split;
  return {.element = split.element, .row = split.row + split.part_rows};
}

/// Adds the fields of a position in a stream to `state`.
void write_place(State& state, const Start& start) {
  const auto& position = start.position;
  state.set("step", position.step);
  state.set("row", position.row);
  state.set("cursor", write_split(position.split));
  if (!start.upstream) return;
  state.set("input", State().set("element", start.upstream->element).set("state", start.upstream->state));
}

Start read_place(const State& state, bool same_split, std::int64_t parts) {
  const StateReader saved(state, kPositionStateCall);
  Start start;
  const std::int64_t row = saved.count("row");
  start.position = {saved.count("step"), row, read_split(saved.at("cursor"), row, same_split, parts)};
  if (!saved.has("input")) return start;
  const StateReader input(saved.at("input"), kPositionStateCall);
  start.upstream = std::make_shared<const Upstream>(Upstream{input.count("element"), input.at("state")});
  TORCH_CHECK_VALUE(start.upstream->element == start.position.split.element, kPositionStateCall,
                    ": the state is damaged: `input` is at element ", start.upstream->element,
                    ", but `cursor` is at element ", start.position.split.element, ".");
  return start;
}

State write_pipelines(const Distribution& distribution, const EpochPosition& at) {
  State::List states;
  for (std::size_t i = 0; i < distribution.pipelines.size(); ++i) {
    const bool begun = i < at.start.pipelines.size();
    const Start start = begun ? at.start.pipelines[i] : Start{};
    states.push_back(write_position(*distribution.pipelines[i], {at.epoch, at.seed, at.seed_agreed, start}));
  }
  return states;
}

std::vector<Start> read_pipelines(const Distribution& distribution, const State& state) {
  const StateReader fields(state, kPositionStateCall);
  const std::size_t saved = fields.has("pipelines") ? fields.list("pipelines").size() : 0;
  TORCH_CHECK_VALUE(
      saved == distribution.pipelines.size(), kPositionStateCall, ": the state has the positions of ", saved,
      " replicas with a pipeline of their own, but here there are ", distribution.pipelines.size(), ".");
  std::vector<Start> starts;
  for (std::size_t i = 0; i < saved; ++i) {
    starts.push_back(read_position(*distribution.pipelines[i], fields.list("pipelines")[i]).start);
  }
  return starts;
}

}  // namespace

void read_seed(const State& state, EpochPosition& at) {
  const StateReader saved(state, kPositionStateCall);
  at.seed_agreed = !saved.at("seed").is_null();
  if (at.seed_agreed) at.seed = static_cast<std::uint64_t>(saved.integer("seed"));
}

State write_position(const Distribution& distribution, const EpochPosition& at) {
  State state = position_header(kKind, distribution.assignment.node);
  state.set("epoch", at.epoch);
  state.set("seed", at.seed_agreed ? State::key(at.seed) : State());
  state.set("split", distribution.assignment.splitter->describe());
  write_place(state, at.start);
  if (at.start.seen_from) {
    State seen_from;
    write_place(seen_from, *at.start.seen_from);
    state.set("seen_from", std::move(seen_from));
  }
  if (!distribution.pipelines.empty()) state.set("pipelines", write_pipelines(distribution, at));
  return state;
}

EpochPosition read_position(const Distribution& distribution, const State& state) {
  check_header(state, kKind, distribution.assignment.node, kPositionStateCall);
  const StateReader saved(state, kPositionStateCall);
  EpochPosition at{.epoch = saved.count("epoch", kMaxEpochs)};
  read_seed(state, at);
  const Splitter& splitter = *distribution.assignment.splitter;
  const bool same_split = saved.text("split") == splitter.describe();
  at.start = read_place(state, same_split, splitter.parts());
  if (saved.has("seen_from")) {
    at.start.seen_from =
        std::make_shared<const Start>(read_place(saved.at("seen_from"), same_split, splitter.parts()));
  }
  at.start.pipelines = read_pipelines(distribution, state);
  return at;
}

}  // namespace torch_distinput
