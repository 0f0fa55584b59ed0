// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/host_member.h"
#include "comm/key_value_store.h"
#include "comm/link_role.h"
#include "comm/local_socket.h"

namespace torch_distinput {

/// A process whose host's leader speaks for it: runs a HostMember over the connection to the leader. It makes
/// no request of the store, and so needs no connection to it, unless the leader ends first: then it goes on
/// as its own leader as soon as it has something to hear or to say.
class MemberRole final : public LinkRole {
 public:
  /// Says hello. `next`: makes the role that goes on where the leader does not want this process.
  MemberRole(KeyValueStorePtr store, LocalConnection leader, const std::string& host_name,
             const std::string& group, std::function<std::unique_ptr<LinkRole>()> next);

  void open(const std::string& scope) override { member_.open(scope); }
  void end(const std::string& scope) override { member_.end(scope); }
  void contribute(const std::string& key, const std::string& text, GroupMachine::Join) override {
    member_.contribute(key, text);
  }
  void post(const std::string& key, const std::string& text) override { member_.post(key, text); }
  void report_lost(const ScopeSet& scopes, const std::string& why) override;
  void leave() override { member_.leave(); }
  void beat(const std::string& activity, std::chrono::milliseconds) override { member_.beat(activity); }
  void ask(const std::string& key, Answer answer) override;
  void found(const std::string&, const std::string&) override {}
  void look() override {}

  std::vector<pollfd> waits_for() const override;
  void progress(const std::function<void()>& news) override;
  std::unique_ptr<LinkRole> successor() override;

  bool speaks() const override { return false; }
  std::optional<GroupMachine::Seat> seat() const override;
  std::optional<std::string> awaits() const override { return std::nullopt; }
  std::vector<GroupMachine::Entry> take_entries() override { return member_.take_entries(); }
  std::vector<Heard> heard() const override;

 private:
  void receive();
  void drop_asks();

  KeyValueStorePtr store_;
  LocalConnection leader_;
  std::string host_name_;
  std::function<std::unique_ptr<LinkRole>()> next_;
  HostMember member_;
  std::multimap<std::string, Answer> asks_;
  std::string leader_lost_;  // why it counts as lost though its process has not ended; "": it does not
  std::chrono::steady_clock::time_point heard_ = std::chrono::steady_clock::now();
};

}  // namespace torch_distinput
