// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "comm/peer_text.h"

namespace torch_distinput {

/// What a rank sets as a sign that it is alive.
struct Heartbeat {
  std::int64_t number = 0;           ///< of this heartbeat, from 1
  std::chrono::milliseconds next{};  ///< the following one comes within this time, at most a day
  std::string activity;              ///< of its rank, for messages

  /// This heartbeat as text, for `decode`.
  std::string encode() const;
  /// The heartbeat in a text. Throws PeerTextError for one that `encode` cannot have made.
  static Heartbeat decode(PeerTextReader reader);
};

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
