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

/// The processes over which a strategy deals data out; its datasets and their iterators share it. Any thread
/// may call.
class Peers {
 public:
  /// `interval`: between two looks at the peers. `make_group`: as in ProcessGroup.
  explicit Peers(KeyValueStorePtr kv_store, std::chrono::milliseconds interval = std::chrono::seconds{1},
                 ProcessGroup::MakeGroup make_group = {})
      : kv_store_(std::move(kv_store)),
        interval_(interval),
        make_group_(std::move(make_group)),
        rendezvous_(std::make_unique<Rendezvous>(kv_store_)) {}

  int rank() const noexcept { return rank_; }
  /// As `KeyValueStore::expect_within`.
  void expect_answers_within(std::chrono::duration<double> limit) { shared_store()->expect_within(limit); }
  /// Waits for the ranks of this life of the group, once: what earlier ones left in the store then means
  /// nothing. Throws DistributedDatasetError naming who did not come. May be called again after an error.
  void meet(const WaitOptions& wait_options);
  /// REQUIRES: `meet` has returned, here and below.
  KeyValueStore& kv_store() { return *shared_store(); }
  KeyValueStorePtr shared_store();
  /// The keys of a dataset, which counts the datasets of this group in the order in which they are first
  /// iterated: the same on every rank that does the same.
  std::string next_dataset_key();
  /// Rounds of all ranks under `key`, which all of them make now.
  std::unique_ptr<AllGather> make_rounds(const std::string& key, const WaitOptions& wait_options);
  /// The watch over the group, started at the first call.
  HeartbeatMonitor& watch();

 private:
  bool have_met();
  std::vector<int> missing();
  /// `ask(rendezvous)`, for which this thread has the rendezvous to itself: no lock is held while the store
  /// is asked. Nothing where another thread has it, or all have come.
  template <class Ask>
  auto at_meeting(Ask ask) -> std::optional<decltype(ask(std::declval<Rendezvous&>()))>;

  KeyValueStorePtr kv_store_;
  int rank_ = kv_store_->rank();
  std::chrono::milliseconds interval_;
  ProcessGroup::MakeGroup make_group_;
  std::mutex mutex_;
  bool met_ = false;
  std::unique_ptr<Rendezvous> rendezvous_;  // null while a thread has it, and when all have come
  std::int64_t datasets_ = 0;
  std::shared_ptr<HeartbeatMonitor> watch_;
};
using PeersPtr = std::shared_ptr<Peers>;

}  // namespace torch_distinput
