// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "comm/group_link.h"
#include "comm/host_identity.h"
#include "comm/key_value_store.h"
#include "distribute/coordination/heartbeat_monitor.h"

namespace torch_distinput {

/// The processes of a group, shared by all strategies over it, their datasets and iterators: one connection,
/// one meeting, one heartbeat, however many there are. Safe from any thread.
class GroupPeers {
 public:
  /// `interval`: between two heartbeats.
  explicit GroupPeers(KeyValueStorePtr kv_store, HostIdentity host = {},
                      std::chrono::milliseconds interval = std::chrono::seconds{1})
      : kv_store_(std::move(kv_store)), host_(std::move(host)), interval_(interval) {}

  int rank() const noexcept { return kv_store_->rank(); }
  /// As `KeyValueStore::expect_within`.
  void expect_answers_within(std::chrono::duration<double> limit) { kv_store_->expect_within(limit); }
  /// The link to the others, made at the first call.
  GroupLink& link();
  /// The monitor of the group, started at the first call. REQUIRES: `link().meet` has returned.
  HeartbeatMonitor& watch();
  /// The number of another strategy. Strategies are numbered in the order in which they are made, which is
  /// the same on every rank.
  std::int64_t next_strategy();

 private:
  KeyValueStorePtr kv_store_;
  HostIdentity host_;
  std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::int64_t strategies_ = 0;
  GroupLinkPtr link_;
  std::shared_ptr<HeartbeatMonitor> watch_;
};

/// The other processes as one strategy sees them. Safe from any thread.
class Peers {
 public:
  explicit Peers(std::shared_ptr<GroupPeers> group)
      : group_(std::move(group)), name_("strategy/" + std::to_string(group_->next_strategy())) {}

  GroupPeers& group() noexcept { return *group_; }
  /// The rank of this process.
  int rank() const noexcept { return group_->rank(); }
  /// Before all keys of this strategy.
  const std::string& name() const noexcept { return name_; }
  /// The key of another dataset. Datasets are numbered in the order in which they are first iterated, so the
  /// key is the same on every rank that iterates the same datasets in the same order.
  std::string next_dataset_key();

 private:
  std::shared_ptr<GroupPeers> group_;
  std::string name_;
  std::mutex mutex_;
  std::int64_t datasets_ = 0;
};
using PeersPtr = std::shared_ptr<Peers>;

}  // namespace torch_distinput
