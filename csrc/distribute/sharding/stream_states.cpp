// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/sharding/stream_states.h"

#include <utility>
#include <variant>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/sampled.h"

namespace torch_distinput {
namespace {

/// Far more than any version cuts; a damaged number must not make long loops.
constexpr std::int64_t kMostSaved = 1 << 20;

State::List ranges_of(const std::set<std::int64_t>& numbers) {
  State::List ranges;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const std::int64_t begin = *at;
    std::int64_t end = begin;
    while (at != numbers.end() && *at == end) ++end, ++at;
    ranges.push_back(State().set("begin", begin).set("end", end));
  }
  return ranges;
}

/// What was drawn, which is there only where there is a mixture. Adds it to `total`.
std::vector<std::int64_t> read_sampled(const StateReader& saved, std::vector<std::int64_t>& total,
                                       std::string_view reader) {
  std::vector<std::int64_t> counts;
  if (!saved.has(kSampled)) return counts;
  for (const State& entry : saved.list(kSampled)) {
    const auto* count = std::get_if<std::int64_t>(&entry.value());
    TORCH_CHECK_VALUE(count != nullptr && *count >= 0 && *count <= kMaxCounted, reader, ": the saved `",
                      kSampled, "` must have integers in [0, ", kMaxCounted, "], but has ", brief(entry),
                      ".");
    counts.push_back(*count);
  }
  add_counts(total, counts);
  for (const std::int64_t sum : total)
    TORCH_CHECK_VALUE(sum <= kMaxCounted, reader, ": the state is damaged: its streams have drawn ", sum,
                      " elements of a dataset.");
  return counts;
}

void write_sampled(State& state, const std::vector<std::int64_t>& sampled) {
  if (!sampled.empty()) state.set(kSampled, list_of(sampled));
}

void read_ended(const StateReader& range, StreamStates& streams, std::string_view reader) {
  const std::int64_t begin = range.count("begin", streams.end);
  const std::int64_t end = range.count("end", streams.end);
  TORCH_CHECK_VALUE(streams.begin <= begin && begin < end, reader, ": the state is damaged: streams [", begin,
                    ", ", end, ") have ended, but it is of those from ", streams.begin, " on.");
  for (std::int64_t stream = begin; stream < end; ++stream) streams.ended.insert(stream);
}

void read_begun(const StateReader& saved, StreamStates& streams, std::vector<std::int64_t>& drawn,
                std::string_view reader) {
  const std::int64_t stream = saved.count("stream", streams.end - 1);
  const std::int64_t turn = saved.count("turn", streams.turns);
  const bool fits = stream >= streams.begin && turn > 0 && !streams.ended.contains(stream);
  StreamStates::Begun begun{turn, saved.at("state"), read_sampled(saved, drawn, reader)};
  TORCH_CHECK_VALUE(fits && streams.begun.emplace(stream, std::move(begun)).second, reader,
                    ": the state is damaged: stream ", stream, " cannot have begun at `turn` ", turn, ".");
}

}  // namespace

std::vector<std::int64_t> StreamStates::all_sampled() const {
  std::vector<std::int64_t> all = sampled;
  for (const auto& [stream, at] : begun) add_counts(all, at.sampled);
  return all;
}

State StreamStates::write() const {
  State::List open;
  for (const auto& [stream, at] : begun) {
    open.push_back(State().set("stream", stream).set("turn", at.turn).set("state", at.state));
    write_sampled(open.back(), at.sampled);
  }
  State state;
  state.set("count", count)
      .set("begin", begin)
      .set("end", end)
      .set("turns", turns)
      .set("ended", ranges_of(ended))
      .set("begun", std::move(open));
  write_sampled(state, sampled);
  return state;
}

StreamStates read_streams(const State& state, std::string_view reader) {
  const StateReader saved(state, reader);
  StreamStates streams;
  streams.count = saved.count("count", kMostSaved);
  TORCH_CHECK_VALUE(streams.count >= 1, reader,
                    ": the saved `count` of streams must be at least 1, but is 0.");
  streams.end = saved.count("end", streams.count);
  streams.begin = saved.count("begin", streams.end);
  streams.turns = saved.count("turns");
  for (const State& range : saved.list("ended")) read_ended(StateReader(range, reader), streams, reader);
  std::vector<std::int64_t> drawn;
  streams.sampled = read_sampled(saved, drawn, reader);
  for (const State& begun : saved.list("begun"))
    read_begun(StateReader(begun, reader), streams, drawn, reader);
  return streams;
}

}  // namespace torch_distinput
