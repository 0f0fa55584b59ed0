// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/rank_status.h"

#include <limits>

namespace torch_distinput {
namespace {

/// Limit on the rows of one step and rank, so that sums over the steps and ranks of a round fit in 64 bits.
constexpr std::int64_t kMaxRows = std::int64_t{1} << 32;

}  // namespace

std::string RankStatus::encode() const {
  PeerTextWriter writer;
  writer.integer(static_cast<int>(after));
  writer.integer(valid.size());
  for (const std::int64_t rows : valid) writer.integer(rows);
  writer.integer(places.size());
  for (const std::int64_t place : places) writer.integer(place);
  writer.integer(lacking.size());
  for (const bool lacks : lacking) writer.flag(lacks);
  writer.string(failure);
  return writer.take();
}

RankStatus RankStatus::decode(PeerTextReader reader) {
  using Limits = std::numeric_limits<std::int64_t>;
  constexpr auto kLastAfter = static_cast<std::int64_t>(After::kFailure);
  RankStatus status;
  status.after = static_cast<After>(reader.integer("what follows", 0, kLastAfter));
  const std::size_t ready = reader.count("the number of steps");
  while (status.valid.size() < ready)
    status.valid.push_back(reader.integer("the rows of a step", 0, kMaxRows));
  const auto of_steps = [&](const char* what) {
    const std::size_t count = reader.count(what);
    if (count != 0 && count != ready)
      reader.fail(what, "0 or the number of steps, " + std::to_string(ready), std::to_string(count));
    return count;
  };
  const std::size_t places = of_steps("the number of positions");
  while (status.places.size() < places)
    status.places.push_back(reader.integer("a position's hash", Limits::min(), Limits::max()));
  const std::size_t lacking = of_steps("the number of flags");
  while (status.lacking.size() < lacking) status.lacking.push_back(reader.flag("a flag"));
  status.failure = reader.string("the failure");
  reader.end();
  return status;
}

}  // namespace torch_distinput
