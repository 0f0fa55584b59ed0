// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "comm/group_link.h"
#include "distribute/coordination/leaving.h"

namespace torch_distinput {

/// What is known about the peers of an iterator: what they reported or what was detected.
struct PeerNews {
  std::string failure;          ///< names the rank and what happened; empty: no failure
  std::optional<Leaving> left;  ///< the first rank that left
};

/// One opened iterator. Its peers are the iterators of other ranks under the same key, which are monitored
/// while this object lives. Safe from any thread.
class MonitoredIterator {
 public:
  virtual ~MonitoredIterator() = default;
  /// What is known now.
  virtual PeerNews news() const = 0;
  /// Reports to the peers that this rank failed. The first failure of an iterator counts.
  virtual void fail(const std::string& message) noexcept = 0;
  /// Reports to the peers that this rank takes no step after the first `step` ones.
  virtual void leave(std::int64_t step) noexcept = 0;
  /// Records that this rank took step `step`, for messages of other ranks.
  virtual void took(std::int64_t step) noexcept = 0;
  /// Ends this rank's use of the iterator, of which no news follows. REQUIRES: it is called once, as the last
  /// call.
  virtual void end() noexcept = 0;
};

/// Monitors the peers of a group: a thread tells the link once in an interval, several times within the
/// shortest timeout, what this rank did last. The host's leader makes one heartbeat of that for all ranks of
/// the host, and checks that of the next host only, so that the store has two calls for each host, whatever
/// the size of the group. Each heartbeat contains the time within which the next one follows, so that no host
/// expects more of another than that one promised. Within a host, the leader and the other ranks hear of each
/// other directly; a process that ends is seen by its connection (LeaderRole), not here. What the peers
/// report arrives by the link. Safe from any thread.
class HeartbeatMonitor {
 public:
  virtual ~HeartbeatMonitor() = default;
  /// Monitors an iterator. `timeout`: how long a rank of this host may give no sign of life before that is a
  /// failure; another host may for `host_timeout`, or for `timeout` if that is shorter.
  virtual std::unique_ptr<MonitoredIterator> watch(const std::string& key,
                                                   std::chrono::duration<double> timeout,
                                                   std::chrono::duration<double> host_timeout) = 0;
};

/// Starts a monitor and its thread. `interval`: between two heartbeats, unless a timeout needs more of them.
/// The thread ends with the last owner of the monitor; it then reports to the peers that this rank has left
/// on purpose.
std::shared_ptr<HeartbeatMonitor> start_heartbeat_monitor(GroupLinkPtr link,
                                                          std::chrono::milliseconds interval);

}  // namespace torch_distinput
