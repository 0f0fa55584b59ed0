// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/peer_link.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "comm/wait_for_all.h"
#include "torch_distinput/error.h"

namespace torch_distinput {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& known) {
    return known.what_without_backtrace();
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

namespace {

void throw_if_failed(const PeerNews& news) {
  if (!news.failure.empty()) throw PeerError("DistributedIterator: " + news.failure);
}

/// `step`: the one that this rank is about to take.
void throw_if_left(const PeerNews& news, std::int64_t step) {
  if (!news.left || step < news.left->step) return;
  throw PeerError("DistributedIterator: rank " + std::to_string(news.left->rank) + " left its loop after " +
                  std::to_string(news.left->step) + " steps, but this rank goes on to step " +
                  std::to_string(step) + ". Every rank has to take the same number of steps.");
}

}  // namespace

std::string OpeningKeys::next() {
  const std::lock_guard lock(mutex_);
  if (dataset_.empty()) dataset_ = peers_->next_dataset_key();
  return dataset_ + "/" + std::to_string(openings_++);
}

PeerRounds::PeerRounds(PeersPtr peers, std::shared_ptr<WatchedIterator> watched,
                       std::unique_ptr<Rounds> rounds)
    : peers_(std::move(peers)), watched_(std::move(watched)), rounds_(std::move(rounds)) {}

void PeerRounds::check(std::int64_t step) const {
  const PeerNews news = watched_->news();
  throw_if_failed(news);
  throw_if_left(news, step);
}

std::vector<std::string> PeerRounds::hold(const std::string& text, std::int64_t step,
                                          const std::function<void()>& check,
                                          const std::function<bool()>& urgent) {
  Patience patience{"DistributedIterator", std::chrono::duration<double>::max()};
  patience.check = [&] {
    this->check(step);
    check();
  };
  patience.activity = [&](int rank) { return peers_->watch().activity(rank); };
  patience.urgent = urgent;
  return rounds_->hold(text, patience);
}

PeerLink::PeerLink(std::shared_ptr<OpeningKeys> keys, double peer_timeout)
    : keys_(std::move(keys)), timeout_(peer_timeout) {}

std::vector<Opening> PeerLink::agree(const Opening& mine) {
  Peers& peers = *keys_->peers();
  peers.expect_answers_within(timeout_);
  Patience patience{"DistributedDataset", timeout_};
  peers.meet(patience);
  if (key_.empty()) key_ = keys_->next();
  auto watched = peers.watch().watch(key_, timeout_);
  std::vector<Opening> openings;
  try {
    patience.activity = [&](int rank) { return peers.watch().activity(rank); };
    patience.check = [&] { throw_if_failed(watched->news()); };
    for (const auto& text : wait_for_all(peers.communicator(), open_key(), mine.encode(), patience))
      openings.push_back(Opening::decode(text));
  } catch (const DistributedDatasetError& error) {
    // Those that come later find this rank's opening, but not this rank.
    watched->fail(error.what_without_backtrace());
    watched->end();
    give_up(peers.communicator(), open_key());
    throw;
  }
  check_openings_agree(openings);
  watched_ = std::move(watched);
  return openings;
}

std::shared_ptr<PeerRounds> PeerLink::rounds() {
  if (rounds_) return rounds_;
  const PeersPtr& peers = keys_->peers();
  Patience patience{"DistributedDataset", timeout_};
  patience.check = [this] { check_alive(); };
  rounds_ = std::make_shared<PeerRounds>(peers, watched_, peers->make_rounds(key_ + "/round", patience));
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
  Peers& peers = *keys_->peers();
  try {
    peers.expect_answers_within(timeout_);
    peers.meet({"DistributedDataset", std::min(timeout_, kTellWithin)});
  } catch (const DistributedDatasetError&) {
    return end();  // who does not come is not told
  } catch (...) {
    end();
    throw;
  }
  if (key_.empty()) key_ = keys_->next();
  watched_ = peers.watch().watch(key_, timeout_);
  watched_->fail(message_of(error));
  give_up(peers.communicator(), open_key());
  end();
}

void PeerLink::end() noexcept {
  if (watched_) watched_->end();
  watched_.reset();
  rounds_.reset();
  key_.clear();
}

void PeerLink::leave(std::int64_t steps) noexcept {
  if (!watched_) return;
  watched_->leave(steps);
  end();
}

}  // namespace torch_distinput
