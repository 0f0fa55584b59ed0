// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/meeting.h"
#include "comm/patience.h"
#include "comm/rounds.h"
#include "distribute/peer_watch.h"

namespace torch_distinput {

/// The processes over which a strategy deals data out; its datasets and their iterators share it. Any thread
/// may call.
class Peers {
 public:
  /// `interval`: between two looks at the peers. `make_group`: as in ProcessGroup.
  explicit Peers(CommunicatorPtr communicator, std::chrono::milliseconds interval = std::chrono::seconds{1},
                 ProcessGroup::MakeGroup make_group = {})
      : communicator_(std::move(communicator)),
        interval_(interval),
        make_group_(std::move(make_group)),
        meeting_(std::make_unique<Meeting>(communicator_)) {}

  int rank() const noexcept { return rank_; }
  /// As `Communicator::expect_within`.
  void expect_answers_within(std::chrono::duration<double> limit) {
    shared_communicator()->expect_within(limit);
  }
  /// Waits for the ranks of this life of the group, once: what earlier ones left in the store then means
  /// nothing. Throws DistributedDatasetError naming who did not come. May be called again after an error.
  void meet(const Patience& patience);
  /// REQUIRES: `meet` has returned, here and below.
  Communicator& communicator() { return *shared_communicator(); }
  CommunicatorPtr shared_communicator();
  /// The keys of a dataset, which counts the datasets of this group in the order in which they are first
  /// iterated: the same on every rank that does the same.
  std::string next_dataset_key();
  /// Rounds of all ranks under `key`, which all of them make now.
  std::unique_ptr<Rounds> make_rounds(const std::string& key, const Patience& patience);
  /// The watch over the group, started at the first call.
  PeerWatch& watch();

 private:
  bool have_met();
  std::vector<int> missing();
  /// `ask(meeting)`, for which this thread has the meeting to itself: no lock is held while the store is
  /// asked. Nothing where another thread has it, or all have come.
  template <class Ask>
  auto at_meeting(Ask ask) -> std::optional<decltype(ask(std::declval<Meeting&>()))>;

  CommunicatorPtr communicator_;
  int rank_ = communicator_->rank();
  std::chrono::milliseconds interval_;
  ProcessGroup::MakeGroup make_group_;
  std::mutex mutex_;
  bool met_ = false;
  std::unique_ptr<Meeting> meeting_;  // null while a thread has it, and when all have come
  std::int64_t datasets_ = 0;
  std::shared_ptr<PeerWatch> watch_;
};
using PeersPtr = std::shared_ptr<Peers>;

}  // namespace torch_distinput
