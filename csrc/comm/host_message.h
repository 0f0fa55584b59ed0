// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace torch_distinput {

/// What processes of one host tell each other: a process its leader, which speaks for the host, or the leader
/// one of them or all. The comment of a kind says which members it has.
struct HostMessage {
  enum class Kind {
    // To the leader:
    kHello,       ///< key: the group; number: the rank; size
    kContribute,  ///< key, text
    kPost,        ///< key, text
    kAsk,         ///< key: which ranks have not contributed to it?
    // From the leader:
    kWelcome,  ///< number: the leader's rank
    kMet,      ///< text: a GroupMachine::Seat
    kEntry,    ///< key, text, flag: failed; number: the next entry of the log
    kAnswer,   ///< key, text: LateRanks
    kLost,     ///< text: why the leader can say nothing any more
    // Both ways:
    kOpen,   ///< key: a scope
    kEnd,    ///< key: a scope
    kBeat,   ///< text: what the process did last
    kLeave,  ///< this process has nothing more to say
  };
  Kind kind;
  std::string key = {};
  std::string text = {};
  std::int64_t number = 0;
  std::int64_t size = 0;
  bool flag = false;

  /// This message as text, for `decode`.
  std::string encode() const;
  /// The message in a text. Throws PeerTextError for one that `encode` cannot have made.
  static HostMessage decode(const std::string& text);
};

}  // namespace torch_distinput
