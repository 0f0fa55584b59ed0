// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/all_gather.h"
#include "distribute/coordination/handshake.h"
#include "distribute/coordination/peers.h"
#include "torch_distinput/error.h"

namespace torch_distinput {

/// The keys of a dataset's iterators, one for each handshake, in the order of the handshakes. Any thread may
/// call.
class HandshakeKeys {
 public:
  explicit HandshakeKeys(PeersPtr peers) : peers_(std::move(peers)) {}
  const PeersPtr& peers() const noexcept { return peers_; }
  std::string next();

 private:
  PeersPtr peers_;
  std::mutex mutex_;
  std::string dataset_;
  std::int64_t handshakes_ = 0;
};

/// What every rank finds out by itself or has agreed on: there is nothing to tell the others.
class PeerError : public DistributedDatasetError {
 public:
  using DistributedDatasetError::DistributedDatasetError;
};

/// What `error` says, for other processes.
std::string message_of(const std::exception_ptr& error);

/// The rounds of one opened iterator, whose peers may fail, fall silent or leave meanwhile. A thread of its
/// own may use it, also after the link that made it was closed.
class PeerRounds {
 public:
  PeerRounds(PeersPtr peers, std::shared_ptr<MonitoredIterator> watched, std::unique_ptr<AllGather> rounds);

  int rank() const noexcept { return peers_->rank(); }
  /// Throws PeerError if a rank is known to have failed, fallen silent or left before step `step`, which this
  /// rank is about to take.
  void check(std::int64_t step) const;
  /// Says `text` in the next round and returns what all ranks said. A rank may take its time: only one that
  /// failed, fell silent or left before `step`, the first that this round is about, ends the wait with
  /// PeerError. `check` is called now and then and ends it by throwing; `urgent`: whether the
  /// consumer waits. After an interrupt the next call goes on with the same round.
  std::vector<std::string> run(const std::string& text, std::int64_t step, const std::function<void()>& check,
                               const std::function<bool()>& urgent);

 private:
  PeersPtr peers_;
  std::shared_ptr<MonitoredIterator> watched_;
  std::unique_ptr<AllGather> rounds_;
};

/// What binds an iterator to those of the other ranks. One thread at a time.
class PeerLink {
 public:
  PeerLink(std::shared_ptr<HandshakeKeys> keys, double peer_timeout);

  bool open() const noexcept { return watched_ != nullptr; }
  /// Waits for the handshakes of all ranks and returns them; throws DistributedDatasetError where they differ
  /// or one is missing for longer than the timeout. May be called again after an interrupt.
  std::vector<Handshake> agree(const Handshake& mine);
  /// The rounds of this iterator, which every rank makes now; the same again after an interrupt, so that they
  /// go on where they were. Throws DistributedDatasetError. REQUIRES: it is open.
  std::shared_ptr<PeerRounds> rounds();
  /// Throws PeerError if a peer is known to have failed.
  void check_alive() const;
  /// Throws PeerError if a peer left before step `step`, which this rank is about to take.
  void check_together(std::int64_t step) const;
  /// This rank took step `step`.
  void took(std::int64_t step) noexcept;
  /// This rank failed at step `step`: there is no other step before the next handshake.
  void fail(std::int64_t step, const std::exception_ptr& error) noexcept;
  /// This rank failed before it could open its iterator. Waits a few seconds for peers that have not come
  /// yet; throws nothing but an interrupt.
  void fail_unopened(const std::exception_ptr& error);
  /// This rank takes no step after the first `steps` ones; the next one needs another handshake.
  void leave(std::int64_t steps) noexcept;
  /// This rank took the last step: nobody waits for it.
  void end() noexcept;

 private:
  std::string open_key() const { return key_ + "/open"; }

  std::shared_ptr<HandshakeKeys> keys_;
  std::chrono::duration<double> timeout_;
  std::string key_;  // of the handshake under way, or of this iterator
  std::shared_ptr<MonitoredIterator> watched_;
  std::shared_ptr<PeerRounds> rounds_;
};

}  // namespace torch_distinput
