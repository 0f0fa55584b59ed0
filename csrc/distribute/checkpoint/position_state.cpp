// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/checkpoint/position_state.h"

#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/changed_weights.h"
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

Start read_place(const Distribution& distribution, const State& state, bool same_split) {
  const std::int64_t parts = distribution.assignment.splitter->parts();
  const StateReader saved(state, kPositionStateCall);
  Start start;
  const std::int64_t row = saved.count("row");
  start.position = {saved.count("step"), row, read_split(saved.at("cursor"), row, same_split, parts)};
  if (!saved.has("input")) return start;
  const StateReader input(saved.at("input"), kPositionStateCall);
  start.upstream = std::make_shared<const Upstream>(Upstream{input.count("element"), input.at("state")});
  const std::int64_t element = start.position.split.element;
  TORCH_CHECK_VALUE(start.upstream->element == distribution.first_needed(element), kPositionStateCall,
                    ": the state is damaged: `input` is at element ", start.upstream->element,
                    ", but `cursor` is at element ", element, ".");
  return start;
}

/// Where rows of several batches are exchanged, the rows before a position are no prefix of the data: only
/// the same exchange can go on. Empty where they are.
std::string exchange_text(const Distribution& distribution) {
  if (!distribution.balance || distribution.input.balance_window == 1) return "";
  return c10::str(distribution.balance->identity(), ", balance_window=", distribution.input.balance_window,
                  ", batch_size=", batch_size_text(distribution.assignment));
}

void write_exchange(State& state, const Distribution& distribution) {
  if (const std::string exchange = exchange_text(distribution); !exchange.empty())
    state.set("balance", State().set("exchange", exchange).set("window", distribution.input.balance_window));
}

void check_exchange(const Distribution& distribution, const State& state, const StepPosition& at) {
  const StateReader fields(state, kPositionStateCall);
  std::string before;
  bool at_border = true;
  if (fields.has("balance")) {
    const StateReader saved(fields.at("balance"), kPositionStateCall);
    before = saved.text("exchange");
    const std::int64_t window = saved.count("window");
    at_border = window > 0 && at.split.element % window == 0 && at.split.row + at.split.part_rows == 0;
  }
  const std::string now = exchange_text(distribution);
  TORCH_CHECK_VALUE(before == now || at.row == 0 || (at_border && now.empty()), kPositionStateCall,
                    ": rows of several global batches are exchanged (`balance_window`), so only the same "
                    "exchange can go on: it was ",
                    before.empty() ? "none" : before, ", but is ", now.empty() ? "none" : now, ".");
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
  State state = position_header(kKind, distribution.identified());
  state.set("epoch", at.epoch);
  state.set("seed", at.seed_agreed ? State::key(at.seed) : State());
  state.set("split", distribution.assignment.splitter->describe());
  write_place(state, at.start);
  write_exchange(state, distribution);
  if (at.start.seen_from) {
    State seen_from;
    write_place(seen_from, *at.start.seen_from);
    state.set("seen_from", std::move(seen_from));
  }
  if (!distribution.pipelines.empty()) state.set("pipelines", write_pipelines(distribution, at));
  if (!at.changed_weights.empty()) state.set(kChangedWeights, state_of(at.changed_weights));
  if (!at.excluded.empty()) state.set(kExcludedRows, state_of(at.excluded));
  return state;
}

void check_position(const Distribution& distribution, const State& state) {
  check_header(state, kKind, distribution.identified(), kPositionStateCall);
}

EpochPosition read_position(const Distribution& distribution, const State& state) {
  check_position(distribution, state);
  const StateReader saved(state, kPositionStateCall);
  EpochPosition at{.epoch = saved.count("epoch", kMaxEpochs)};
  read_seed(state, at);
  const Splitter& splitter = *distribution.assignment.splitter;
  const bool same_split = saved.text("split") == splitter.describe();
  at.start = read_place(distribution, state, same_split);
  check_exchange(distribution, state, at.start.position);
  if (saved.has("seen_from")) {
    at.start.seen_from =
        std::make_shared<const Start>(read_place(distribution, saved.at("seen_from"), same_split));
  }
  at.start.pipelines = read_pipelines(distribution, state);
  at.excluded = excluded_rows_in(state, kPositionStateCall);
  at.changed_weights = changed_weights_in(state, *distribution.assignment.node, kPositionStateCall);
  return at;
}

}  // namespace torch_distinput
