// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/host_machine.h"
#include "comm/key_value_store.h"
#include "comm/link_role.h"
#include "comm/local_socket.h"

namespace torch_distinput {

/// The process that speaks for its host: runs a HostMachine over the group's store and the connections of the
/// host's other processes. A process that ends is seen at once, by the end of its connection or, where a
/// forked child of it holds that, by the kernel.
class LeaderRole final : public LinkRole {
 public:
  /// `listener`: where the host's other processes connect; nullopt: there are none. `group`: its name, which
  /// they must know.
  LeaderRole(KeyValueStorePtr store, std::unique_ptr<HostMachine> machine,
             std::optional<LocalListener> listener, std::string group);
  ~LeaderRole() override;

  void open(const std::string& scope) override { machine_->open(scope); }
  void end(const std::string& scope) override;
  void contribute(const std::string& key, const std::string& text, GroupMachine::Join join) override {
    machine_->contribute(key, text, std::move(join));
  }
  void post(const std::string& key, const std::string& text) override { machine_->post(key, text); }
  void report_lost(const ScopeSet& scopes, const std::string& why) override {
    machine_->report_lost(scopes, why);
  }
  void leave() override;
  void beat(const std::string& activity, std::chrono::milliseconds next) override;
  void ask(const std::string& key, Answer answer) override;
  void found(const std::string& key, const std::string& text) override { machine_->group().found(key, text); }
  void look() override { machine_->group().look(); }

  std::vector<pollfd> waits_for() const override;
  void progress(const std::function<void()>& news) override;
  std::unique_ptr<LinkRole> successor() override { return nullptr; }

  bool speaks() const override { return true; }
  std::optional<GroupMachine::Seat> seat() const override;
  std::optional<std::string> awaits() const override;
  std::vector<GroupMachine::Entry> take_entries() override { return std::exchange(entries_, {}); }
  std::vector<Heard> heard() const override;

 private:
  struct Guest {
    LocalConnection connection;
    int rank = -1;  // -1: it has not said hello
    std::chrono::steady_clock::time_point heard = std::chrono::steady_clock::now();
    ScopeSet scopes = {};
    bool dropped = false;
  };

  void receive();
  void receive_from(Guest& guest);
  void take(Guest& guest, const HostMessage& message);
  bool admits(Guest& guest, const HostMessage& hello);
  void drop(Guest& guest, const std::string& how);
  void pass_on();
  void make_requests(const std::function<void()>& news);
  void send_heartbeat();

  KeyValueStorePtr store_;
  std::unique_ptr<HostMachine> machine_;
  std::optional<LocalListener> listener_;
  std::string group_;
  std::vector<Guest> guests_;
  std::vector<GroupMachine::Entry> entries_;  // that the other processes have been sent
  std::int64_t heartbeat_ = 0;
  std::chrono::milliseconds next_{};
};

}  // namespace torch_distinput
