// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "comm/peer_text.h"

namespace torch_distinput {

/// A rank that left its loop, and the number of steps that it had taken.
struct Leaving {
  int rank;
  std::int64_t step;

  /// This as text, for `decode`.
  std::string encode() const;
  /// What a text says, in a group of `size` ranks. Throws PeerTextError for one that `encode` cannot have
  /// made.
  static Leaving decode(PeerTextReader reader, int size);
};

}  // namespace torch_distinput
