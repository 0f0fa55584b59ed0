// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/host_message.h"

#include <limits>

#include "comm/peer_text.h"

namespace torch_distinput {

std::string HostMessage::encode() const {
  PeerTextWriter writer;
  writer.integer(static_cast<int>(kind));
  writer.string(key);
  writer.string(text);
  writer.integer(number);
  writer.integer(size);
  writer.flag(flag);
  return writer.take();
}

HostMessage HostMessage::decode(const std::string& text) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  PeerTextReader reader(text, "DistributedDataset: a message of a process of this host");
  HostMessage message{
      static_cast<Kind>(reader.integer("the kind of a message", 0, static_cast<int>(Kind::kLeave)))};
  message.key = reader.string("the key of a message");
  message.text = reader.string("the text of a message");
  message.number = reader.integer("the number of a message", 0, kMax);
  message.size = reader.integer("the size of a group", 0, kMax);
  message.flag = reader.flag("the flag of a message");
  reader.end();
  return message;
}

}  // namespace torch_distinput
