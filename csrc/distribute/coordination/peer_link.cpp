// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/peer_link.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "core/message_of.h"
#include "torch_distinput/error.h"

namespace torch_distinput {

namespace {

void throw_if_failed(const PeerNews& news) {
  if (!news.failure.empty()) throw PeerError("DistributedIterator: " + news.failure);
}

/// `step`: the one that this rank is about to take.
void throw_if_left(const PeerNews& news, std::int64_t step) {
  if (!news.left || step < news.left->step) return;
  throw PeerError("DistributedIterator: rank " + std::to_string(news.left->rank) + " left its loop after " +
                  std::to_string(news.left->step) + " steps, but this rank goes on to step " +
                  std::to_string(step) + ". Every rank must take the same number of steps.");
}

}  // namespace

std::string HandshakeKeys::next() {
  const std::lock_guard lock(mutex_);
  if (dataset_.empty()) dataset_ = peers_->next_dataset_key();
  return dataset_ + "/" + std::to_string(handshakes_++);
}

PeerRounds::PeerRounds(PeersPtr peers, std::shared_ptr<MonitoredIterator> watched, std::string scope)
    : peers_(std::move(peers)), watched_(std::move(watched)), scope_(std::move(scope)) {}

void PeerRounds::check(std::int64_t step) const {
  const PeerNews news = watched_->news();
  throw_if_failed(news);
  throw_if_left(news, step);
}

std::string PeerRounds::run(const std::string& text, const GroupMachine::Join& join, std::int64_t step,
                            const std::function<void()>& check, const std::function<bool()>& urgent) {
  WaitOptions wait_options{"DistributedIterator", std::chrono::duration<double>::max()};
  wait_options.check = [&] {
    this->check(step);
    check();
  };
  GroupPeers& group = peers_->group();
  wait_options.urgent = urgent;
  std::string joined =
      group.link().reduce(scope_ + "/round-" + std::to_string(held_), text, join, wait_options);
  ++held_;
  return joined;
}

PeerLink::PeerLink(std::shared_ptr<HandshakeKeys> keys, double peer_timeout, double host_timeout)
    : keys_(std::move(keys)), timeout_(peer_timeout), host_timeout_(host_timeout) {}

HandshakeSummary PeerLink::agree(const Handshake& mine) {
  GroupPeers& peers = keys_->peers()->group();
  peers.expect_answers_within(timeout_);
  WaitOptions wait_options{"DistributedDataset", timeout_};
  peers.link().meet(wait_options);
  if (key_.empty()) key_ = keys_->next();
  auto watched = peers.watch().watch(key_, timeout_, host_timeout_);
  HandshakeSummary all;
  try {
    wait_options.check = [&] { throw_if_failed(watched->news()); };
    const std::string whose = "DistributedDataset: the handshakes under `" + open_key() + "`";
    const int size = peers.link().size();
    const auto join = [=](const std::vector<std::string>& texts) {
      return join_handshakes(texts, size, whose);
    };
    const std::string text = HandshakeSummary::of(peers.rank(), mine).encode();
    all = handshakes_of_all(peers.link().reduce(open_key(), text, join, wait_options), size, whose);
  } catch (const DistributedDatasetError& error) {
    // A rank that comes later finds this rank's handshake, so it must also learn that this rank has failed.
    watched->fail(error.what_without_backtrace());
    watched->end();
    throw;
  }
  try {
    check_handshakes_agree(all);
  } catch (const DistributedDatasetError&) {
    watched->end();  // all ranks find the same, so that this one has left nobody behind
    throw;
  }
  watched_ = std::move(watched);
  return all;
}

std::shared_ptr<PeerRounds> PeerLink::rounds() {
  if (rounds_) return rounds_;
  rounds_ = std::make_shared<PeerRounds>(keys_->peers(), watched_, key_);
  return rounds_;
}

void PeerLink::check_alive() const { throw_if_failed(watched_->news()); }

void PeerLink::check_together(std::int64_t step) const { throw_if_left(watched_->news(), step); }

void PeerLink::took(std::int64_t step) noexcept { watched_->took(step); }

void PeerLink::fail(std::int64_t step, const std::exception_ptr& error) noexcept {
  if (watched_) watched_->fail("at step " + std::to_string(step) + ": " + message_of(error));
  end();
}

void PeerLink::fail_unopened(const std::exception_ptr& error) {
  constexpr std::chrono::duration<double> kTellWithin{10};
  GroupPeers& peers = keys_->peers()->group();
  try {
    peers.expect_answers_within(timeout_);
    peers.link().meet({"DistributedDataset", std::min(timeout_, kTellWithin)});
  } catch (const DistributedDatasetError&) {
    return end();  // ranks that did not come are not told of the error
  } catch (...) {
    end();
    throw;
  }
  if (key_.empty()) key_ = keys_->next();
  watched_ = peers.watch().watch(key_, timeout_, host_timeout_);
  watched_->fail(message_of(error));
  end();
}

void PeerLink::end() noexcept {
  if (watched_) watched_->end();
  watched_.reset();
  rounds_.reset();
  key_.clear();
}

void PeerLink::leave(std::int64_t steps) noexcept {
  if (!watched_) {
    // An interrupt ended the handshake.
    if (!key_.empty()) keys_->peers()->group().link().end(key_);
    return end();
  }
  watched_->leave(steps);
  end();
}

}  // namespace torch_distinput
