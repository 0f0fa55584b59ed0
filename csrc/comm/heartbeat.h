// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "comm/peer_text.h"
#include "comm/rank_ranges.h"
#include "comm/scope_set.h"

namespace torch_distinput {

/// What a host's leader sets under `heartbeat_key` as a sign that the host is alive.
struct Heartbeat {
  std::int64_t number = 0;                     ///< of this heartbeat, from 1
  std::chrono::milliseconds next{};            ///< the following one comes within this time, at most a day
  ScopeSet scopes = {};                        ///< of its ranks: open where one of them has it open
  std::map<int, std::string> activities = {};  ///< what its ranks did last, for messages
  std::map<std::string, RankRanges> late =
      {};  ///< its ranks that a reduction of the host still waits for, by key

  /// This heartbeat as text, for `decode`.
  std::string encode() const;
  /// The heartbeat in a text, of a group of `size` ranks. Throws PeerTextError for one that `encode` cannot
  /// have made.
  static Heartbeat decode(PeerTextReader reader, int size);
};

/// The key, within a life, of the heartbeat of host `host`; the last process to leave removes it.
std::string heartbeat_key(std::int64_t host);

/// What a host sets instead of a heartbeat when it leaves on purpose.
inline constexpr const char* kGone = "gone";

}  // namespace torch_distinput
