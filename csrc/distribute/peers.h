// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "comm/communicator.h"
#include "distribute/peer_watch.h"

namespace torch_distinput {

/// The processes over which a strategy deals data out; its datasets and their iterators share it. Any thread
/// may call.
class Peers {
 public:
  /// `interval`: between two looks at the peers.
  explicit Peers(CommunicatorPtr communicator, std::chrono::milliseconds interval = std::chrono::seconds{1})
      : communicator_(std::move(communicator)), interval_(interval) {}

  Communicator& communicator() const noexcept { return *communicator_; }
  const CommunicatorPtr& shared_communicator() const noexcept { return communicator_; }
  /// The keys of a dataset, which counts the datasets of this group in the order in which they are first
  /// iterated: the same on every rank that does the same.
  std::string next_dataset_key();
  /// The watch over the group, started at the first call.
  PeerWatch& watch();

 private:
  CommunicatorPtr communicator_;
  std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::int64_t datasets_ = 0;
  std::shared_ptr<PeerWatch> watch_;
};
using PeersPtr = std::shared_ptr<Peers>;

}  // namespace torch_distinput
