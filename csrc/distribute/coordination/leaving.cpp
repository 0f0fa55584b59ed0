// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/leaving.h"

#include "core/state_reader.h"

namespace torch_distinput {

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
