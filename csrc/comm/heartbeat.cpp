// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/heartbeat.h"

#include <limits>

namespace torch_distinput {

std::string Heartbeat::encode() const {
  PeerTextWriter writer;
  writer.integer(number);
  writer.integer(next.count());
  scopes.encode(writer);
  writer.integer(activities.size());
  for (const auto& [rank, activity] : activities) {
    writer.integer(rank);
    writer.string(activity);
  }
  writer.integer(late.size());
  for (const auto& [key, ranks] : late) {
    writer.string(key);
    ranks.encode(writer);
  }
  return writer.take();
}

Heartbeat Heartbeat::decode(PeerTextReader reader, int size) {
  constexpr std::chrono::milliseconds kMaxNext = std::chrono::hours{24};
  constexpr std::int64_t kMaxNumber = std::numeric_limits<std::int64_t>::max();
  Heartbeat heartbeat;
  heartbeat.number = reader.integer("the number of a heartbeat", 1, kMaxNumber);
  heartbeat.next = std::chrono::milliseconds{
      reader.integer("the milliseconds to the next heartbeat", 0, kMaxNext.count())};
  heartbeat.scopes = ScopeSet::decode(reader);
  for (auto left = reader.count("the number of activities"); left > 0; --left) {
    const auto rank = static_cast<int>(reader.integer("a rank", 0, size - 1));
    heartbeat.activities[rank] = reader.string("the activity of a rank");
  }
  for (auto left = reader.count("the number of reductions"); left > 0; --left) {
    const std::string key(reader.string("the key of a reduction"));
    heartbeat.late[key] = RankRanges::decode(reader, size);
  }
  reader.end();
  return heartbeat;
}

std::string heartbeat_key(std::int64_t host) { return "heartbeat/" + std::to_string(host); }

}  // namespace torch_distinput
