// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/heartbeat_monitor.h"

#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

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

/// Number of heartbeats that `rank` has sent.
int heartbeat(const GroupLink& link, int rank) {
  const auto text = link.store()->multi_get({"heartbeat/" + std::to_string(rank)});
  return text ? std::stoi(text->front()) : 0;
}

/// A store that can be lost (its calls throw) or frozen (its calls do not return).
class Losable final : public KeyValueStore {
 public:
  explicit Losable(KeyValueStorePtr inner) : inner_(std::move(inner)) {}
  std::atomic<bool> lost{false};
  std::atomic<std::chrono::milliseconds> answers_after{0ms};  // when it is lost
  std::atomic<int> calls{0};
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
    ++calls;
    for (; frozen; ++waits) {
      if (const auto& check = interrupt_check()) check();
      std::this_thread::sleep_for(1ms);
    }
    if (lost) {
      std::this_thread::sleep_for(answers_after.load());
      throw std::runtime_error("connection reset");
    }
    return *inner_;
  }
  KeyValueStorePtr inner_;
};

TEST(HeartbeatMonitor, ReportsTheFailureOfARankToTheOthers) {
  const auto ranks = met_links(3);
  std::vector<std::unique_ptr<MonitoredIterator>> watched;
  for (const auto& rank : ranks)
    watched.push_back(start_heartbeat_monitor(rank, kInterval)->watch("it/0", 60s));
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
  const auto first = start_heartbeat_monitor(ranks[0], kInterval)->watch("it/0", 60s);
  const auto second = start_heartbeat_monitor(ranks[1], kInterval)->watch("it/0", 60s);
  second->leave(17);
  eventually([&] { return first->news().left.has_value(); });
  EXPECT_EQ(first->news().left->rank, 1);
  EXPECT_EQ(first->news().left->step, 17);
  EXPECT_EQ(first->news().failure, "");
}

TEST(HeartbeatMonitor, ReportsWhatARankDidLast) {
  const auto ranks = met_links(2);
  const auto here = start_heartbeat_monitor(ranks[0], kInterval);
  EXPECT_EQ(here->activity(1), "has sent no heartbeat yet");
  const auto there = start_heartbeat_monitor(ranks[1], kInterval);
  eventually([&] { return here->activity(1) == "has not taken a step yet"; });
  there->watch("dataset/0/0", 20s)->took(17);
  eventually([&] { return here->activity(1) == "took step 17 of dataset/0/0 0 s ago"; });
}

TEST(HeartbeatMonitor, KeepsIteratorsApart) {
  const auto ranks = met_links(2);
  const auto watch = start_heartbeat_monitor(ranks[0], kInterval);
  const auto train = watch->watch("train/0", 60s);
  const auto validation = watch->watch("validation/0", 60s);
  start_heartbeat_monitor(ranks[1], kInterval)->watch("train/0", 60s)->fail("no");
  eventually([&] { return !train->news().failure.empty(); });
  EXPECT_EQ(validation->news().failure, "");
}

TEST(HeartbeatMonitor, NamesARankWithoutHeartbeatsToAll) {
  const auto ranks = met_links(3);
  const auto first = start_heartbeat_monitor(ranks[0], kInterval)->watch("it/0", 60s);
  const auto second = start_heartbeat_monitor(ranks[1], kInterval)->watch("it/0", 20ms);
  // Rank 2 sent one heartbeat and stopped without leaving.
  ranks[2]->store()->set("heartbeat/2", "1 2 24 has not taken a step yet");
  eventually([&] { return !first->news().failure.empty(); });
  EXPECT_EQ(first->news().failure, "rank 2 sent no heartbeat for 0 s");
}

TEST(HeartbeatMonitor, SendsSeveralHeartbeatsWithinTheShortestTimeout) {
  const auto ranks = met_links(2);
  const auto watch = start_heartbeat_monitor(ranks[0], 1h);
  eventually([&] { return heartbeat(*ranks[1], 0) == 1; });
  const auto patient = watch->watch("patient/0", 10h);
  const auto hasty = watch->watch("hasty/0", 50ms);
  eventually([&] { return heartbeat(*ranks[1], 0) > 5; });
}

TEST(HeartbeatMonitor, NoRankFailsBeforeItsPromisedHeartbeatIsDue) {
  const auto ranks = met_links(2);
  const auto before = std::chrono::steady_clock::now();
  // Rank 1's timeouts, and so its intervals, are longer than rank 0's.
  ranks[1]->store()->set("heartbeat/1", "1 50 24 has not taken a step yet");
  const auto hasty = start_heartbeat_monitor(ranks[0], kInterval)->watch("it/0", 1ms);
  eventually([&] { return !hasty->news().failure.empty(); });
  EXPECT_GE(std::chrono::steady_clock::now() - before, 150ms);
}

TEST(HeartbeatMonitor, TheStoreIsEmptyWhenAllHaveEnded) {
  const auto stores = in_memory_stores(2);
  auto ranks = met_links(stores);
  auto watches =
      std::vector{start_heartbeat_monitor(ranks[0], kInterval), start_heartbeat_monitor(ranks[1], kInterval)};
  auto first = watches[0]->watch("it/0", 60s);
  auto second = watches[1]->watch("it/0", 60s);
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
  const auto first = start_heartbeat_monitor(ranks[0], kInterval)->watch("it/0", 1ms);
  eventually([&] { return heartbeat(*ranks[1], 0) > 5; });
  EXPECT_EQ(first->news().failure, "");
}

TEST(HeartbeatMonitor, ARankThatEndedOnPurposeHasNotFailed) {
  const auto ranks = met_links(2);
  const auto first = start_heartbeat_monitor(ranks[0], kInterval)->watch("it/0", 1ms);
  start_heartbeat_monitor(ranks[1], kInterval).reset();
  EXPECT_EQ(ranks[0]->store()->multi_get({"heartbeat/1"}), std::vector<std::string>{"gone"});
  eventually([&] { return heartbeat(*ranks[1], 0) > 5; });
  EXPECT_EQ(first->news().failure, "");
}

TEST(HeartbeatMonitor, TheTimeOfAnUnansweredCallCounts) {
  auto stores = in_memory_stores(2);
  const auto store = std::make_shared<Losable>(stores[0]);
  stores[0] = store;
  const auto links = met_links(stores);
  const auto watch = start_heartbeat_monitor(links[0], kInterval);
  const auto watched = watch->watch("it/0", 100ms);
  store->calls = 0;
  store->answers_after = 100ms;
  store->lost = true;
  eventually([&] { return !watched->news().failure.empty(); });
  // The call at which the store was lost, one that may have been under way, and the report to the peers.
  EXPECT_LE(store->calls, 3);
}

TEST(HeartbeatMonitor, AStoreThatDoesNotAnswerDoesNotDelayTheEnd) {
  auto stores = in_memory_stores(2);
  const auto store = std::make_shared<Losable>(stores[0]);
  stores[0] = store;
  const auto links = met_links(stores);
  auto watch = start_heartbeat_monitor(links[0], kInterval);
  auto watched = watch->watch("it/0", 1h);
  store->frozen = true;
  eventually([&] { return store->waits > 0; });
  watched.reset();
  watch.reset();  // must return
}

TEST(HeartbeatMonitor, ALostStoreIsAFailureAfterTheTimeout) {
  auto stores = in_memory_stores(2);
  const auto store = std::make_shared<Losable>(stores[0]);
  stores[0] = store;
  const auto links = met_links(stores);
  const auto watch = start_heartbeat_monitor(links[0], kInterval);
  const auto patient = watch->watch("patient/0", 60s);
  const auto hasty = watch->watch("hasty/0", 10ms);
  store->lost = true;
  eventually([&] { return !hasty->news().failure.empty(); });
  EXPECT_EQ(hasty->news().failure, "the store could not be reached for 0 s (connection reset)");
  EXPECT_EQ(patient->news().failure, "");
}

}  // namespace
}  // namespace torch_distinput
