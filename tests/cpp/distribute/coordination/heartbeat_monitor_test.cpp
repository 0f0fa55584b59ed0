// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/heartbeat_monitor.h"

#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "comm/heartbeat.h"
#include "support/met_links.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using namespace std::chrono_literals;

constexpr auto kInterval = 2ms;

/// Waits until `done`, for 20 s at most, which only a broken monitor exceeds.
void eventually(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!done()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the condition did not become true";
    std::this_thread::yield();
  }
}

/// The last heartbeat of `link`'s host; the default one if there is none.
Heartbeat heartbeat_of(const GroupLink& link) {
  const auto text = link.store()->multi_get({heartbeat_key(link.host())});
  if (!text || text->front() == kGone) return {};
  return Heartbeat::decode({text->front(), "the heartbeat"}, link.size());
}

/// Makes `link`'s host look as if it had sent one heartbeat and stopped without leaving.
void stop_heartbeats(const GroupLink& link, std::chrono::milliseconds next) {
  Heartbeat heartbeat{.number = 1, .next = next};
  heartbeat.activities[link.rank()] = "has not taken a step yet";
  link.store()->set(heartbeat_key(link.host()), heartbeat.encode());
}

/// The link whose host checks the heartbeats of `link`'s.
GroupLinkPtr watcher_of(const std::vector<GroupLinkPtr>& links, const GroupLinkPtr& link) {
  for (const auto& one : links)
    if ((one->host() + 1) % one->hosts() == link->host()) return one;
  return nullptr;
}

/// A store that can be lost (its calls throw) or frozen (its calls do not return).
class Losable final : public KeyValueStore {
 public:
  explicit Losable(KeyValueStorePtr inner) : inner_(std::move(inner)) {}
  std::atomic<bool> lost{false};
  std::atomic<bool> frozen{false};
  std::atomic<int> waits{0};

  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }
  void expect_within(std::chrono::duration<double> limit) override { inner_->expect_within(limit); }
  void set(const std::string& key, const std::string& text) override { reach().set(key, text); }
  std::string compare_set(const std::string& key, const std::string& text) override {
    return reach().compare_set(key, text);
  }
  void append(const std::string& key, const std::string& text) override { reach().append(key, text); }
  std::optional<std::vector<std::string>> multi_get(const std::vector<std::string>& keys) override {
    return reach().multi_get(keys);
  }
  std::optional<std::string> await(const std::string& key, std::chrono::milliseconds limit) override {
    return inner_->await(key, limit);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override { return reach().add(key, value); }
  void remove(const std::string& key) override { reach().remove(key); }

 private:
  KeyValueStore& reach() {
    for (; frozen; ++waits) {
      if (const auto& check = interrupt_check()) check();
      std::this_thread::sleep_for(1ms);
    }
    if (lost) throw std::runtime_error("connection reset");
    return *inner_;
  }
  KeyValueStorePtr inner_;
};

TEST(HeartbeatMonitor, ReportsTheFailureOfARankToTheOthers) {
  const auto ranks = met_links(3);
  std::vector<std::unique_ptr<MonitoredIterator>> watched;
  for (const auto& rank : ranks)
    watched.push_back(start_heartbeat_monitor(rank, kInterval)->watch("it/0", 60s, 5s));
  EXPECT_EQ(watched[0]->news().failure, "");
  watched[2]->fail("at step 4: the disk is full");
  eventually([&] { return !watched[1]->news().failure.empty(); });
  watched[1]->fail("too late");
  for (const auto& one : watched) {
    eventually([&] { return !one->news().failure.empty(); });
    EXPECT_EQ(one->news().failure, "rank 2 failed: at step 4: the disk is full");
  }
}

TEST(HeartbeatMonitor, ReportsThatARankLeftToTheOthers) {
  const auto ranks = met_links(2);
  const auto first = start_heartbeat_monitor(ranks[0], kInterval)->watch("it/0", 60s, 5s);
  const auto second = start_heartbeat_monitor(ranks[1], kInterval)->watch("it/0", 60s, 5s);
  second->leave(17);
  eventually([&] { return first->news().left.has_value(); });
  EXPECT_EQ(first->news().left->rank, 1);
  EXPECT_EQ(first->news().left->step, 17);
  EXPECT_EQ(first->news().failure, "");
}

TEST(HeartbeatMonitor, TellsWhatARankDidLast) {
  const auto ranks = met_links(2);
  const auto there = start_heartbeat_monitor(ranks[1], kInterval);
  const auto did = [&] { return heartbeat_of(*ranks[1]).activities[1]; };
  eventually([&] { return did() == "has not taken a step yet"; });
  there->watch("dataset/0/0", 20s, 5s)->took(17);
  eventually([&] { return did() == "took step 17 of dataset/0/0 0 s ago"; });
}

TEST(HeartbeatMonitor, KeepsIteratorsApart) {
  const auto ranks = met_links(2);
  const auto watch = start_heartbeat_monitor(ranks[0], kInterval);
  const auto train = watch->watch("train/0", 60s, 5s);
  const auto validation = watch->watch("validation/0", 60s, 5s);
  start_heartbeat_monitor(ranks[1], kInterval)->watch("train/0", 60s, 5s)->fail("no");
  eventually([&] { return !train->news().failure.empty(); });
  EXPECT_EQ(validation->news().failure, "");
}

TEST(HeartbeatMonitor, NamesAHostWithoutHeartbeatsToAll) {
  const auto ranks = met_links(3);
  const auto watcher = watcher_of(ranks, ranks[2]);
  const auto other = ranks[1 - watcher->rank()];
  const auto first = start_heartbeat_monitor(other, kInterval)->watch("it/0", 60s, 5s);
  const auto second = start_heartbeat_monitor(watcher, kInterval)->watch("it/0", 20ms, 5s);
  stop_heartbeats(*ranks[2], 2ms);
  for (const auto& one : {first.get(), second.get()}) {
    eventually([&] { return !one->news().failure.empty(); });
    EXPECT_EQ(one->news().failure, "rank 2 sent no heartbeat for 0 s; rank 2 has not taken a step yet");
  }
}

TEST(HeartbeatMonitor, NamesAllRanksOfALostHost) {
  const auto ranks = met_links(in_memory_stores(6), hosts_of(6, 2));
  std::vector<std::unique_ptr<MonitoredIterator>> watched;
  for (const int rank : {0, 1, 4, 5})
    watched.push_back(start_heartbeat_monitor(ranks[rank], kInterval)->watch("it/0", 20ms, 5s));
  stop_heartbeats(*ranks[2], 2ms);
  for (const auto& one : watched) {
    eventually([&] { return !one->news().failure.empty(); });
    EXPECT_EQ(one->news().failure.find("host node1 (ranks 2 and 3) sent no heartbeat for 0 s"), 0U)
        << one->news().failure;
  }
}

TEST(HeartbeatMonitor, AHostThatHadEndedItsScopesIsNotLost) {
  const auto ranks = met_links(2);
  const auto there = start_heartbeat_monitor(ranks[1], kInterval);
  auto ended = there->watch("it/0", 60s, 5s);
  eventually([&] { return heartbeat_of(*ranks[1]).scopes.is_open("it/0"); });
  ended->end();
  ended.reset();
  eventually([&] { return heartbeat_of(*ranks[1]).scopes.has_ended("it/0"); });
  const auto here = start_heartbeat_monitor(ranks[0], kInterval);
  const auto goes_on = here->watch("it/0", 60s, 5s);
  ranks[0]->report_lost(heartbeat_of(*ranks[1]).scopes, "lost");
  const auto next = here->watch("it/1", 60s, 5s);
  eventually([&] { return !next->news().failure.empty(); });
  EXPECT_EQ(goes_on->news().failure, "");
}

TEST(HeartbeatMonitor, NamesAFrozenRankOfTheSameHost) {
  for (const int after_leader : {1, 2}) {
    const auto ranks = met_links(in_memory_stores(3), hosts_of(3, 3));
    const int leader = ranks[0]->speaks() ? 0 : ranks[1]->speaks() ? 1 : 2;
    const int silent = (leader + after_leader) % 3;  // its link lives, but says nothing
    std::vector<std::unique_ptr<MonitoredIterator>> watched;
    for (const auto& rank : ranks)
      if (rank->rank() != silent)
        watched.push_back(start_heartbeat_monitor(rank, kInterval)->watch("it/0", 50ms, 5s));
    const std::string wanted = "rank " + std::to_string(silent) + " on host node0 sent no heartbeat for 0.";
    for (const auto& one : watched) {
      eventually([&] { return !one->news().failure.empty(); });
      EXPECT_EQ(one->news().failure.find(wanted), 0U) << one->news().failure;
    }
  }
}

TEST(HeartbeatMonitor, SendsSeveralHeartbeatsWithinTheShortestTimeout) {
  const auto ranks = met_links(2);
  const auto watch = start_heartbeat_monitor(ranks[0], 1h);
  eventually([&] { return heartbeat_of(*ranks[0]).number == 1; });
  const auto patient = watch->watch("patient/0", 10h, 5s);
  const auto hasty = watch->watch("hasty/0", 50ms, 5s);
  eventually([&] { return heartbeat_of(*ranks[0]).number > 5; });
}

TEST(HeartbeatMonitor, NoRankFailsBeforeItsPromisedHeartbeatIsDue) {
  const auto ranks = met_links(2);
  const auto before = std::chrono::steady_clock::now();
  // Rank 1's timeouts, and so its intervals, are longer than rank 0's.
  stop_heartbeats(*ranks[1], 50ms);
  const auto hasty = start_heartbeat_monitor(ranks[0], kInterval)->watch("it/0", 1ms, 5s);
  eventually([&] { return !hasty->news().failure.empty(); });
  EXPECT_GE(std::chrono::steady_clock::now() - before, 150ms);
}

TEST(HeartbeatMonitor, TheStoreIsEmptyWhenAllHaveEnded) {
  const auto stores = in_memory_stores(2);
  auto ranks = met_links(stores);
  auto watches =
      std::vector{start_heartbeat_monitor(ranks[0], kInterval), start_heartbeat_monitor(ranks[1], kInterval)};
  auto first = watches[0]->watch("it/0", 60s, 5s);
  auto second = watches[1]->watch("it/0", 60s, 5s);
  first->leave(3);
  first->fail("no");
  first->end();
  eventually([&] { return second->news().left && !second->news().failure.empty(); });
  second->end();
  first.reset();
  second.reset();
  watches.clear();
  ranks.clear();
  EXPECT_EQ(keys_of(*stores[0]), 0);
}

TEST(HeartbeatMonitor, ARankThatHasNotComeYetHasNotFailed) {
  const auto ranks = met_links(2);
  const auto first = start_heartbeat_monitor(ranks[0], kInterval)->watch("it/0", 1ms, 5s);
  eventually([&] { return heartbeat_of(*ranks[0]).number > 5; });
  EXPECT_EQ(first->news().failure, "");
}

TEST(HeartbeatMonitor, ARankThatEndedOnPurposeHasNotFailed) {
  auto ranks = met_links(2);
  const auto first = start_heartbeat_monitor(ranks[0], kInterval)->watch("it/0", 1ms, 5s);
  start_heartbeat_monitor(ranks[1], kInterval).reset();
  const std::string key = heartbeat_key(ranks[1]->host());
  ranks[1].reset();
  EXPECT_EQ(ranks[0]->store()->multi_get({key}), std::vector<std::string>{kGone});
  const auto number = heartbeat_of(*ranks[0]).number;
  eventually([&] { return heartbeat_of(*ranks[0]).number > number + 5; });
  EXPECT_EQ(first->news().failure, "");
}

TEST(HeartbeatMonitor, AStoreThatDoesNotAnswerDoesNotDelayTheEnd) {
  auto stores = in_memory_stores(2);
  const auto store = std::make_shared<Losable>(stores[0]);
  stores[0] = store;
  const auto links = met_links(stores);
  auto watch = start_heartbeat_monitor(links[0], kInterval);
  auto watched = watch->watch("it/0", 1h, 5s);
  store->frozen = true;
  eventually([&] { return store->waits > 0; });
  watched.reset();
  watch.reset();  // must return
}

TEST(HeartbeatMonitor, ALostStoreIsAFailureOfAllIterators) {
  auto stores = in_memory_stores(2);
  const auto store = std::make_shared<Losable>(stores[0]);
  stores[0] = store;
  const auto links = met_links(stores);
  const auto watch = start_heartbeat_monitor(links[0], kInterval);
  const auto patient = watch->watch("patient/0", 60s, 5s);
  const auto hasty = watch->watch("hasty/0", 10ms, 5s);
  store->lost = true;
  for (const auto& one : {patient.get(), hasty.get()}) {
    eventually([&] { return !one->news().failure.empty(); });
    EXPECT_EQ(one->news().failure, "connection reset");
  }
}

TEST(HeartbeatMonitor, ALostStoreIsAFailureOfAllRanksOfTheHost) {
  auto stores = in_memory_stores(3);
  std::vector<std::shared_ptr<Losable>> losable;
  for (auto& store : stores) store = losable.emplace_back(std::make_shared<Losable>(store));
  const auto links = met_links(stores, hosts_of(3, 3));
  std::vector<std::unique_ptr<MonitoredIterator>> watched;
  for (const auto& link : links)
    watched.push_back(start_heartbeat_monitor(link, kInterval)->watch("it/0", 60s, 5s));
  for (const auto& store : losable) store->lost = true;
  for (const auto& one : watched) {
    eventually([&] { return !one->news().failure.empty(); });
    EXPECT_EQ(one->news().failure, "connection reset");
  }
}

}  // namespace
}  // namespace torch_distinput
