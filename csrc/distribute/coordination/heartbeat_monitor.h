// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "comm/group_link.h"
#include "distribute/coordination/heartbeat_text.h"

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
  /// Records that this rank took step `step`, for `HeartbeatMonitor::activity` on other ranks.
  virtual void took(std::int64_t step) noexcept = 0;
  /// Ends this rank's use of the iterator, of which no news follows. REQUIRES: it is called once, as the last
  /// call.
  virtual void end() noexcept = 0;
};

/// Monitors the peers of a group: a thread sends a heartbeat once in an interval, several times within the
/// shortest timeout. What the peers report arrives by the link. Each heartbeat contains the time within which
/// the next one follows, so that no rank expects more of another than that rank promised. Each rank checks
/// the heartbeats of the next rank only, so the store has a few calls for each rank, whatever the size of the
/// group. Safe from any thread.
class HeartbeatMonitor {
 public:
  virtual ~HeartbeatMonitor() = default;
  /// Monitors an iterator. `timeout`: how long a peer may send no heartbeat, or the store may not answer,
  /// before that is a failure.
  virtual std::unique_ptr<MonitoredIterator> watch(const std::string& key,
                                                   std::chrono::duration<double> timeout) = 0;
  /// What `rank` did last, from its last heartbeat, such as `took step 17 of dataset/0/1 31 s ago`. Throws as
  /// KeyValueStore does.
  virtual std::string activity(int rank) = 0;
};

/// Starts a monitor and its thread. `interval`: between two heartbeats, unless a timeout needs more of them.
/// The thread ends with the last owner of the monitor; it then reports to the peers that this rank has left
/// on purpose.
std::shared_ptr<HeartbeatMonitor> start_heartbeat_monitor(GroupLinkPtr link,
                                                          std::chrono::milliseconds interval);

}  // namespace torch_distinput
