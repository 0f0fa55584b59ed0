// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/group_machine.h"
#include "comm/heartbeat.h"
#include "comm/host_message.h"
#include "comm/scope_set.h"

namespace torch_distinput {

/// A rank of a host, for messages: `rank 3 on host gpu-017`.
std::string name_of_rank(int rank, const std::string& host_name);

/// The part of a host's leader: a state machine that joins what the processes of the host say before it goes
/// to the group, and tells them what comes from there. A process without others on its host is its own
/// leader. No threads, no waits, no clock; one thread at a time.
///
/// A rank whose process ends while it has a scope open has failed that scope, for all ranks; so has one that
/// another rank of the host waits for in a scope that it never opened. A rank that has ended its scopes may
/// go without a word.
class HostMachine {
 public:
  /// `rank`: the leader's. Otherwise as GroupMachine.
  HostMachine(int rank, int size, std::uint64_t nonce, std::string host_name = {});
  /// Goes on, for this rank alone, in the place of a leader that has ended. `scopes`: of this rank.
  HostMachine(int rank, int size, const GroupMachine::Seat& seat, ScopeSet scopes);

  GroupMachine& group() noexcept { return group_; }
  const GroupMachine& group() const noexcept { return group_; }
  /// The leader's.
  int rank() const noexcept { return rank_; }
  /// A rank of this host, for messages.
  std::string name_of(int rank) const { return name_of_rank(rank, host_name_); }

  // What the leader's own process says.

  void open(const std::string& scope) { open(rank_, scope); }
  void end(const std::string& scope) { end(rank_, scope); }
  /// Contributes to the reduction `key`, which goes to the group when all ranks of the host have contributed.
  void contribute(const std::string& key, const std::string& text, GroupMachine::Join join);
  void post(const std::string& key, const std::string& text) { group_.post(key, text); }
  /// `activity`: what this rank did last.
  void beat(const std::string& activity);

  // What other processes of the host say and do.

  /// A process of the host has come. Returns false, and takes nothing from it, where `rank` is there already
  /// or the group has met.
  bool admit(int rank);
  /// Takes a message of an admitted rank, but no `kHello` and no `kAsk`.
  void receive(int rank, const HostMessage& message);
  /// The connection to an admitted rank has ended, or it is known to have ended: `how`, as the end of the
  /// sentence `rank 3 ...`. Only the first call for a rank has an effect.
  void gone(int rank, const std::string& how);

  /// Another host, or a rank of this one, is lost: fails all scopes that are open here, or will be, and that
  /// `scopes`, its own, has not ended. `why` is the text of the failure.
  void report_lost(const ScopeSet& scopes, const std::string& why);

  /// A message for one rank of this host, or for all but the leader.
  struct Outgoing {
    std::optional<int> rank;
    HostMessage message;
  };
  std::vector<Outgoing> take_messages();
  /// The entries that have come, for the leader's own process. The other ranks get them by message.
  std::vector<GroupMachine::Entry> take_entries();
  /// Whether this host waits for entries.
  bool listens() const;

  /// The host as its heartbeat tells it; `number` and `next` are not set.
  Heartbeat heartbeat() const;
  /// As GroupMachine::missing, and what this host itself knows.
  std::vector<LateRank> missing(KeyValueStore& store, const std::string& key) const;
  /// Ends the part of all ranks of this host that have left, and of the leader.
  void leave();

 private:
  struct Rank {
    ScopeSet scopes;
    std::string activity;
    bool gone = false;
    bool left = false;
  };
  struct Pending {
    std::map<int, std::string> texts;
    GroupMachine::Join join;
  };
  struct Lost {
    ScopeSet scopes;
    std::string why;
  };

  void open(int rank, const std::string& scope);
  void end(int rank, const std::string& scope);
  void contribute(int rank, const std::string& key, const std::string& text);
  void pass_on(const std::string& key);
  void fail_scope(const std::string& scope);
  RankRanges late(const std::string& key) const;
  void tell(HostMessage message);

  int rank_;
  std::string host_name_;
  GroupMachine group_;
  bool told_met_ = false;
  std::map<int, Rank> ranks_;
  std::map<std::string, Pending> pending_;
  std::vector<Lost> lost_;
  std::vector<Outgoing> messages_;
  std::vector<GroupMachine::Entry> entries_;
};

/// That a rank of a host is gone, for messages. `activity`: what it did last, may be empty.
std::string told_gone(int rank, const std::string& host_name, const std::string& how,
                      const std::string& activity);
/// How a rank is gone whose process has ended without a word. `process`: its number; 0: not known.
std::string told_process_ended(int process);

/// Several late ranks as text, and back. `late_ranks` throws PeerTextError.
std::string text_of(const std::vector<LateRank>& ranks);
std::vector<LateRank> late_ranks(const std::string& text, int size);

}  // namespace torch_distinput
