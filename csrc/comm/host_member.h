// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/group_machine.h"
#include "comm/host_machine.h"
#include "comm/host_message.h"
#include "comm/scope_set.h"

namespace torch_distinput {

/// The part of a process whose host's leader speaks for it: a state machine without threads, waits or clocks.
/// When the leader ends, `take_over` makes what goes on in its place. One thread at a time.
class HostMember {
 public:
  HostMember(int rank, int size, std::string host_name)
      : rank_(rank), size_(size), host_name_(std::move(host_name)) {}

  void open(const std::string& scope);
  void end(const std::string& scope);
  void contribute(const std::string& key, const std::string& text);
  void post(const std::string& key, const std::string& text);
  void ask(const std::string& key);
  void beat(const std::string& activity);
  void leave();

  /// Takes a message of the leader. Throws PeerTextError for one that a leader does not send.
  void receive(const HostMessage& message);
  bool met() const noexcept { return seat_.has_value(); }
  /// REQUIRES: `met()`, here and below.
  const GroupMachine::Seat& seat() const { return *seat_; }
  /// Whether this process must hear of its peers, though its leader has ended.
  bool needs_group() const { return !scopes_.all_open().empty(); }
  const ScopeSet& scopes() const noexcept { return scopes_; }
  const ScopeSet& leader_scopes() const noexcept { return leader_scopes_; }
  /// The leader, for messages.
  std::string name_of_leader() const { return name_of_rank(leader_, host_name_); }
  /// The rank of the leader; -1 before it has welcomed this process.
  int leader() const noexcept { return leader_; }
  /// What goes on, for this rank alone, in the place of a leader that has ended: `why`, for messages.
  std::unique_ptr<HostMachine> take_over(const std::string& why) const;
  /// The leader is silent: fails what is open here at once, because the store may be its process.
  void lose_leader(const std::string& why);
  /// That the leader's process has ended, for messages.
  std::string told_ended(int process) const;

  std::vector<HostMessage> take_messages();
  std::vector<GroupMachine::Entry> take_entries();
  /// An answer to `ask`: the key and the ranks.
  struct Answer {
    std::string key;
    std::vector<LateRank> ranks;
  };
  std::vector<Answer> take_answers();
  /// Why the leader can say nothing any more; "": it can.
  const std::string& lost() const noexcept { return lost_; }

 private:
  int rank_;
  int size_;
  std::string host_name_;
  ScopeSet scopes_;
  int leader_ = -1;
  ScopeSet leader_scopes_;
  std::string leader_activity_;
  bool leader_left_ = false;
  std::string lost_;
  std::optional<GroupMachine::Seat> seat_;
  std::vector<HostMessage> messages_;
  std::map<std::string, std::string>
      posts_;  ///< that have not come back: a leader may end before it reads them
  std::vector<GroupMachine::Entry> entries_;
  std::vector<Answer> answers_;
};

}  // namespace torch_distinput
