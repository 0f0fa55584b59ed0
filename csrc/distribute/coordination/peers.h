// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/all_gather.h"
#include "comm/key_value_store.h"
#include "comm/rendezvous.h"
#include "comm/waiting.h"
#include "distribute/coordination/heartbeat_monitor.h"

namespace torch_distinput {

/// The processes of a strategy, shared by its datasets and their iterators. Safe from any thread.
class Peers {
 public:
  /// `interval`: between two heartbeats. `make_group`: as in ProcessGroup.
  explicit Peers(KeyValueStorePtr kv_store, std::chrono::milliseconds interval = std::chrono::seconds{1},
                 ProcessGroup::MakeGroup make_group = {})
      : kv_store_(std::move(kv_store)),
        interval_(interval),
        make_group_(std::move(make_group)),
        rendezvous_(std::make_unique<Rendezvous>(kv_store_)) {}

  /// The rank of this process.
  int rank() const noexcept { return rank_; }
  /// As `KeyValueStore::expect_within`.
  void expect_answers_within(std::chrono::duration<double> limit) { shared_store()->expect_within(limit); }
  /// Waits for the rendezvous of this life of the group, once; afterwards texts of earlier lives in the store
  /// have no effect. Throws DistributedDatasetError, which names the missing ranks. May be called again after
  /// an error.
  void meet(const WaitOptions& wait_options);
  /// The store, with keys of this life of the group. REQUIRES: `meet` has returned, here and below.
  KeyValueStore& kv_store() { return *shared_store(); }
  KeyValueStorePtr shared_store();
  /// The key of another dataset. Datasets are numbered in the order in which they are first iterated, so the
  /// key is the same on every rank that iterates the same datasets in the same order.
  std::string next_dataset_key();
  /// Rounds of all ranks under `key`. Every rank must call at the same time. Throws as
  /// `all_gather_over_group` does.
  std::unique_ptr<AllGather> make_rounds(const std::string& key, const WaitOptions& wait_options);
  /// The monitor of the group, started at the first call.
  HeartbeatMonitor& watch();

 private:
  bool have_met();
  std::vector<int> missing();
  /// Returns `ask(rendezvous)`, for which this thread takes the rendezvous, so that no lock is held during
  /// calls of the store. nullopt if another thread has it, or if it is over.
  template <class Ask>
  auto at_rendezvous(Ask ask) -> std::optional<decltype(ask(std::declval<Rendezvous&>()))>;

  KeyValueStorePtr kv_store_;
  int rank_ = kv_store_->rank();
  std::chrono::milliseconds interval_;
  ProcessGroup::MakeGroup make_group_;
  std::mutex mutex_;
  bool met_ = false;
  std::unique_ptr<Rendezvous> rendezvous_;  // null while a thread has it, and when it is over
  std::int64_t datasets_ = 0;
  std::shared_ptr<HeartbeatMonitor> watch_;
};
using PeersPtr = std::shared_ptr<Peers>;

}  // namespace torch_distinput
