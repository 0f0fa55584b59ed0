// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>

#include "comm/group_machine.h"
#include "comm/scope_set.h"

namespace torch_distinput {

/// How a process speaks to its group: for its host, as the leader, or through the process that does. One
/// thread, that of the link, makes all calls. Each may throw DistributedDatasetError: nothing can be said any
/// more.
class LinkRole {
 public:
  virtual ~LinkRole() = default;

  // As in HostMachine.
  virtual void open(const std::string& scope) = 0;
  virtual void end(const std::string& scope) = 0;
  virtual void contribute(const std::string& key, const std::string& text, GroupMachine::Join join) = 0;
  virtual void post(const std::string& key, const std::string& text) = 0;
  virtual void report_lost(const ScopeSet& scopes, const std::string& why) = 0;
  virtual void leave() = 0;
  /// What this rank did last; the next call comes within `next`.
  virtual void beat(const std::string& activity, std::chrono::milliseconds next) = 0;
  /// Calls `answer` with the ranks that have not contributed to `key`, now or later.
  using Answer = std::function<void(std::vector<LateRank>)>;
  virtual void ask(const std::string& key, Answer answer) = 0;
  /// The store has a text under the key that this process waited for.
  virtual void found(const std::string& key, const std::string& text) = 0;
  /// Looks for the other hosts; to be called now and then until all have met.
  virtual void look() = 0;

  /// What must be readable or writable before `progress` has something to do.
  virtual std::vector<pollfd> waits_for() const = 0;
  /// Receives and sends what can be; calls `news` after each step that may have changed what follows.
  virtual void progress(const std::function<void()>& news) = 0;
  /// The role that goes on instead of this one, if this one can not.
  virtual std::unique_ptr<LinkRole> successor() = 0;

  virtual bool speaks() const = 0;
  /// What the group knows of this host; nullopt: not all have met.
  virtual std::optional<GroupMachine::Seat> seat() const = 0;
  /// The key whose text in the store this process must wait for, if any.
  virtual std::optional<std::string> awaits() const = 0;
  /// The entries that have come.
  virtual std::vector<GroupMachine::Entry> take_entries() = 0;
  /// The other ranks of the host that this process hears of: their last sign of life.
  struct Heard {
    int rank;
    ScopeSet scopes;
    std::chrono::steady_clock::time_point at;
    std::string name;  ///< for messages
  };
  virtual std::vector<Heard> heard() const = 0;
};

}  // namespace torch_distinput
