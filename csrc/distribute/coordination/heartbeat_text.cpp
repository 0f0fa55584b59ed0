// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/heartbeat_text.h"

#include "core/state_reader.h"

namespace torch_distinput {

std::string Heartbeat::encode() const {
  PeerTextWriter writer;
  writer.integer(number);
  writer.integer(next.count());
  writer.string(activity);
  return writer.take();
}

Heartbeat Heartbeat::decode(PeerTextReader reader) {
  constexpr std::chrono::milliseconds kMaxNext = std::chrono::hours{24};
  Heartbeat heartbeat;
  heartbeat.number = reader.integer("the number of a heartbeat", 1, kMaxCounted);
  heartbeat.next = std::chrono::milliseconds{
      reader.integer("the milliseconds to the next heartbeat", 0, kMaxNext.count())};
  heartbeat.activity = reader.string("the activity of a rank");
  reader.end();
  return heartbeat;
}

std::string Leaving::encode() const {
  PeerTextWriter writer;
  writer.integer(rank);
  writer.integer(step);
  return writer.take();
}

Leaving Leaving::decode(PeerTextReader reader, int size) {
  const auto rank = static_cast<int>(reader.integer("a rank", 0, size - 1));
  const std::int64_t step = reader.integer("a step", 0, kMaxCounted);
  reader.end();
  return {rank, step};
}

}  // namespace torch_distinput
