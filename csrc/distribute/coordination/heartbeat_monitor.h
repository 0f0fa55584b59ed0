// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "comm/key_value_store.h"

namespace torch_distinput {

/// What a peer said about itself, or what was found out about it.
struct PeerNews {
  /// A rank that left its loop, and the steps it had taken by then.
  struct Leaving {
    int rank;
    std::int64_t step;
  };

  std::string failure;          ///< names the rank and what happened; empty: nothing did
  std::optional<Leaving> left;  ///< the first rank that left
};

/// One opened iterator, whose peers are those that opened theirs under the same key. It is watched while this
/// lives. Any thread may call.
class MonitoredIterator {
 public:
  virtual ~MonitoredIterator() = default;
  /// What is known by now; asks nobody.
  virtual PeerNews news() const = 0;
  /// Tells the peers that this rank failed. The first failure of an iterator counts.
  virtual void fail(const std::string& message) noexcept = 0;
  /// Tells the peers that this rank takes no step after the first `step` ones.
  virtual void leave(std::int64_t step) noexcept = 0;
  /// This rank took step `step`: what `HeartbeatMonitor::activity` tells the others about it.
  virtual void took(std::int64_t step) noexcept = 0;
  /// This rank is done with the iterator: when all are, nothing of it stays on the store. Once; nothing else
  /// is called afterwards.
  virtual void end() noexcept = 0;
};

/// Looks after the peers of a group: a thread says once an interval that this process lives, several times
/// within the shortest timeout, and reads what the others have to say. Each sign of life says by when the
/// next one comes, so that no rank expects more of another than that promised. It listens for the next rank's
/// sign of life only, so that the store has a few calls for each rank, whatever the size of the group. Any
/// thread may call.
class HeartbeatMonitor {
 public:
  virtual ~HeartbeatMonitor() = default;
  /// `timeout`: silence of a peer or of the store that is a failure.
  virtual std::unique_ptr<MonitoredIterator> watch(const std::string& key,
                                                   std::chrono::duration<double> timeout) = 0;
  /// What `rank` did last, as it said with its last sign of life: `took step 17 of dataset/0/1 31 s ago`.
  virtual std::string activity(int rank) = 0;
};

/// Starts the thread. `interval`: between two signs of life, unless a timeout asks for more. It ends with the
/// last owner, and then tells the peers that this rank has gone on purpose.
std::shared_ptr<HeartbeatMonitor> start_heartbeat_monitor(KeyValueStorePtr kv_store,
                                                          std::chrono::milliseconds interval);

}  // namespace torch_distinput
