// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "distribute/coordination/handshake_summary.h"
#include "distribute/coordination/peers.h"
#include "torch_distinput/error.h"

namespace torch_distinput {

/// The keys of a dataset's iterators, one for each handshake, in their order. Safe from any thread.
class HandshakeKeys {
 public:
  explicit HandshakeKeys(PeersPtr peers) : peers_(std::move(peers)) {}
  const PeersPtr& peers() const noexcept { return peers_; }
  /// The key of the next handshake. REQUIRES: the group has met.
  std::string next();

 private:
  PeersPtr peers_;
  std::mutex mutex_;
  std::string dataset_;
  std::int64_t handshakes_ = 0;
};

/// An error that every rank detects by itself or that the ranks agreed on, so that no rank reports it.
class PeerError : public DistributedDatasetError {
 public:
  using DistributedDatasetError::DistributedDatasetError;
};

/// The rounds of one opened iterator, whose peers may fail, stop or leave meanwhile. May be used by a thread
/// other than the PeerLink's, also after the link was closed. One thread at a time, except for `rank` and
/// `check`.
class PeerRounds {
 public:
  PeerRounds(PeersPtr peers, std::shared_ptr<MonitoredIterator> watched, std::string scope);

  int rank() const noexcept { return peers_->rank(); }
  int size() const noexcept { return peers_->group().link().size(); }
  /// Throws PeerError if a rank is known to have failed, to send no heartbeats, or to have left before step
  /// `step`, which this rank is about to take.
  void check(std::int64_t step) const;
  /// Sends `text` in the next round and returns the join of all ranks' texts. There is no timeout for slow
  /// ranks: only one for which `check(step)` throws ends the wait. `step`: the first step of this round.
  /// `check` is called repeatedly and ends the wait by throwing; `urgent`: whether the consumer waits. After
  /// an interrupt the next call continues the same round.
  std::string run(const std::string& text, const GroupMachine::Join& join, std::int64_t step,
                  const std::function<void()>& check, const std::function<bool()>& urgent);

 private:
  PeersPtr peers_;
  std::shared_ptr<MonitoredIterator> watched_;
  std::string scope_;
  std::int64_t held_ = 0;
};

/// Connects an iterator with those of the other ranks. One thread at a time.
class PeerLink {
 public:
  /// `peer_timeout`, `host_timeout`: seconds, as in InputOptions.
  PeerLink(std::shared_ptr<HandshakeKeys> keys, double peer_timeout, double host_timeout);

  /// Whether `agree` has returned and the iterator has not ended since.
  bool open() const noexcept { return watched_ != nullptr; }
  /// Waits for the handshakes of all ranks and returns their summary. Throws DistributedDatasetError if they
  /// differ or one is missing after the timeout. May be called again after an interrupt.
  HandshakeSummary agree(const Handshake& mine);
  /// The rounds of this iterator: at each call the same object, so that a round continues after an interrupt.
  /// REQUIRES: `open()`, as for the `check` functions and `took`.
  std::shared_ptr<PeerRounds> rounds();
  /// Throws PeerError if a peer is known to have failed.
  void check_alive() const;
  /// Throws PeerError if a peer left before step `step`, which this rank is about to take.
  void check_together(std::int64_t step) const;
  /// Records that this rank took step `step`.
  void took(std::int64_t step) noexcept;
  /// Reports that this rank failed at step `step`. The next step needs another handshake.
  void fail(std::int64_t step, const std::exception_ptr& error) noexcept;
  /// Reports that this rank failed before it opened its iterator. Waits up to 10 s for peers that have not
  /// come yet. Throws nothing but an interrupt.
  void fail_unopened(const std::exception_ptr& error);
  /// Reports that this rank leaves its loop after `steps` steps. The next step needs another handshake.
  void leave(std::int64_t steps) noexcept;
  /// Ends the iterator after the last step: no rank waits for this one.
  void end() noexcept;

 private:
  std::string open_key() const { return key_ + "/open"; }

  std::shared_ptr<HandshakeKeys> keys_;
  std::chrono::duration<double> timeout_;
  std::chrono::duration<double> host_timeout_;
  std::string key_;  // of the handshake under way, or of this iterator
  std::shared_ptr<MonitoredIterator> watched_;
  std::shared_ptr<PeerRounds> rounds_;
};

}  // namespace torch_distinput
