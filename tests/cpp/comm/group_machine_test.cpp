// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/group_machine.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "comm/peer_text.h"
#include "support/errors.h"
#include "support/in_memory_stores.h"
#include "support/mutations.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using Kind = StoreRequest::Kind;

std::string sum(const std::vector<std::string>& texts) {
  std::int64_t total = 0;
  for (const auto& text : texts) total += std::stoll(text);
  return std::to_string(total);
}

/// A machine, the requests that it has still to make, and what the store has still to push.
class Process {
 public:
  Process(KeyValueStorePtr store, std::uint64_t nonce)
      : machine(store->rank(), store->size(), nonce), store_(std::move(store)) {
    machine.start();
    take();
  }

  /// Makes one request, or receives one text; returns false if there is nothing to do.
  bool step(bool receives_first) { return receives_first ? receive() || ask() : ask() || receive(); }

  void take() {
    for (auto& request : machine.take_requests()) requests_.push_back(std::move(request));
    for (auto& entry : machine.take_entries()) entries.push_back(std::move(entry));
  }

  GroupMachine machine;
  std::vector<GroupMachine::Entry> entries;  // that have come
  std::int64_t asked = 0;                    // requests
  std::size_t longest = 0;                   // text that a request carried

 private:
  bool ask() {
    if (requests_.empty()) return false;
    const StoreRequest request = requests_.front();
    requests_.pop_front();
    ++asked;
    longest = std::max(longest, request.text.size());
    const StoreAnswer answer = make(request);
    if (answer.text) longest = std::max(longest, answer.text->size());
    if (request.then) request.then(answer);
    take();
    return true;
  }

  bool receive() {
    if (!machine.met()) return false;
    if (!waits_for_) waits_for_ = machine.awaits();
    if (!waits_for_) return false;
    const auto texts = store_->multi_get({*waits_for_});
    if (!texts) return false;
    ++asked;
    const std::string key = *std::exchange(waits_for_, std::nullopt);
    machine.found(key, texts->front());
    take();
    return true;
  }

  StoreAnswer make(const StoreRequest& request) {
    switch (request.kind) {
      case Kind::kSet:
        store_->set(request.key, request.text);
        return {};
      case Kind::kCompareSet:
        return {store_->compare_set(request.key, request.text)};
      case Kind::kAppend:
        store_->append(request.key, request.text);
        return {};
      case Kind::kAdd:
        return {{}, store_->add(request.key, request.number)};
      case Kind::kRemove:
        store_->remove(request.key);
        return {};
      case Kind::kGet:
        if (const auto texts = store_->multi_get({request.key})) return {texts->front()};
        return {};
    }
    return {};
  }

  KeyValueStorePtr store_;
  std::deque<StoreRequest> requests_;
  std::optional<std::string> waits_for_;
};

/// Processes over one store that take their steps in a random order.
class Group {
 public:
  Group(const std::vector<KeyValueStorePtr>& stores, std::mt19937_64& random)
      : store_(stores.front()), random_(random) {
    for (const auto& store : stores) all.push_back(std::make_unique<Process>(store, random()));
  }
  Group(int size, std::mt19937_64& random) : Group(in_memory_stores(size), random) {}

  /// Takes steps until no process has anything to do, at most `steps`.
  void run(std::int64_t steps = std::numeric_limits<std::int64_t>::max()) {
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), 0);
    for (bool busy = true; busy;) {
      busy = false;
      std::shuffle(order.begin(), order.end(), random_);
      for (const std::size_t i : order) {
        if (--steps < 0) return;
        busy |= all[i]->step(random_() % 2 == 0);
      }
    }
  }

  /// Runs until all processes have met, which look for another life now and then.
  void meet() {
    for (int looks = 0; looks < 30; ++looks) {
      run();
      if (met()) return;
      for (auto& process : all) process->machine.look(), process->take();
    }
  }

  bool met() const {
    return std::all_of(all.begin(), all.end(), [](const auto& process) { return process->machine.met(); });
  }

  void contribute(int rank, const std::string& key, const std::string& text) {
    at(rank).machine.contribute(key, text, sum);
    at(rank).take();
  }
  void leave() {
    for (auto& process : all) process->machine.leave(1), process->take();
    run();
  }

  Process& at(int rank) { return *all[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(all.size()); }
  std::size_t keys() const { return keys_of(*store_); }
  KeyValueStore& store() { return *store_; }

  std::vector<std::unique_ptr<Process>> all;

 private:
  KeyValueStorePtr store_;
  std::mt19937_64& random_;
};

TEST(GroupMachine, AllProcessesMeetInOneLifeInAnyOrder) {
  std::mt19937_64 random(1);
  for (const int size : {1, 2, 3, 8, 33, 70}) {
    for (int trial = 0; trial < 20; ++trial) {
      Group group(size, random);
      group.meet();
      ASSERT_TRUE(group.met()) << size;
      for (const auto& process : group.all)
        EXPECT_EQ(process->machine.prefix(), group.at(0).machine.prefix());
    }
  }
}

TEST(GroupMachine, EarlierLivesThatEndedAtAnyPointHaveNoEffect) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 400; ++trial) {
    const auto stores = in_memory_stores(3);
    std::set<std::string> earlier;
    for (int life = 0; life < 3; ++life) {
      Group dead(stores, random);
      dead.run(static_cast<std::int64_t>(random() % 60));
      for (const auto& process : dead.all) earlier.insert(process->machine.prefix());
    }
    Group group(stores, random);
    group.meet();
    ASSERT_TRUE(group.met()) << "trial " << trial;
    for (const auto& process : group.all) EXPECT_EQ(process->machine.prefix(), group.at(0).machine.prefix());
    EXPECT_FALSE(earlier.contains(group.at(0).machine.prefix()));
    group.contribute(0, "a", "1"), group.contribute(1, "a", "2"), group.contribute(2, "a", "4");
    group.run();
    for (const auto& process : group.all) EXPECT_EQ(process->entries.back().text, "7");
  }
}

TEST(GroupMachine, ALifeOfAnotherNumberOfProcessesHasNoEffect) {
  std::mt19937_64 random(3);
  const auto shared = std::make_shared<SharedTexts>();
  const auto over = [&](int size) {
    std::vector<KeyValueStorePtr> stores;
    for (int rank = 0; rank < size; ++rank)
      stores.push_back(std::make_shared<InMemoryStore>(shared, rank, size));
    return stores;
  };
  for (const int size : {3, 2, 5}) {
    Group group(over(size), random);
    group.meet();
    EXPECT_TRUE(group.met()) << size;
  }
}

TEST(GroupMachine, ALateProcessMeetsThoseThatWait) {
  std::mt19937_64 random(4);
  const auto stores = in_memory_stores(3);
  for (const int late : {0, 1, 2}) {
    auto some = stores;
    some.erase(some.begin() + late);
    Group group(some, random);
    group.meet();
    EXPECT_FALSE(group.met());
    group.all.push_back(std::make_unique<Process>(stores[static_cast<std::size_t>(late)], random()));
    group.meet();
    EXPECT_TRUE(group.met());
    group.leave();
  }
}

TEST(GroupMachine, EveryProcessReadsTheSameEntriesWithTheSumsOfAll) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 60; ++trial) {
    Group group(static_cast<int>(1 + random() % 70), random);
    group.meet();
    std::map<std::string, std::int64_t> sums;
    // Reductions of two iterators that the processes take up in different orders, and posts between them.
    for (int round = 0; round < 4; ++round) {
      for (int rank = 0; rank < group.size(); ++rank) {
        std::vector<std::string> keys = {"a/" + std::to_string(round), "b/" + std::to_string(round)};
        std::shuffle(keys.begin(), keys.end(), random);
        for (const auto& key : keys) {
          const auto value = static_cast<std::int64_t>(random() % 1000);
          sums[key] += value;
          group.contribute(rank, key, std::to_string(value));
        }
        if (random() % 4 == 0) {
          group.at(rank).machine.post("news/" + std::to_string(round), std::to_string(rank));
          group.at(rank).take();
        }
        group.run(static_cast<std::int64_t>(random() % 50));
      }
    }
    group.run();
    std::vector<std::string> first;
    for (const auto& entry : group.at(0).entries) first.push_back(entry.key + "=" + entry.text);
    EXPECT_EQ(std::set(first.begin(), first.end()).size(), first.size());
    for (const auto& [key, total] : sums)
      EXPECT_EQ(std::count(first.begin(), first.end(), key + "=" + std::to_string(total)), 1) << key;
    for (const auto& process : group.all) {
      std::vector<std::string> entries;
      for (const auto& entry : process->entries) entries.push_back(entry.key + "=" + entry.text);
      EXPECT_EQ(entries, first);
    }
  }
}

TEST(GroupMachine, TextsThatCannotBeJoinedAreAnErrorOnAll) {
  std::mt19937_64 random(6);
  for (const int size : {1, 2, 40}) {
    Group group(size, random);
    group.meet();
    for (int rank = 0; rank < size; ++rank) {
      group.at(rank).machine.contribute("a", "x", [](const std::vector<std::string>&) -> std::string {
        throw DistributedDatasetError("they differ");
      });
      group.at(rank).take();
    }
    group.run();
    for (const auto& process : group.all) {
      ASSERT_EQ(process->entries.size(), 1U);
      EXPECT_TRUE(process->entries.front().failed);
      EXPECT_EQ(process->entries.front().text, "they differ");
    }
  }
}

TEST(GroupMachine, ATextOfAnotherProgramIsAnErrorThatNamesItsKey) {
  std::mt19937_64 random(7);
  Group group(2, random);
  group.meet();
  const std::string key = group.at(0).machine.prefix() + "a/up/0/0";
  group.store().append(key, "7 1 x");
  group.contribute(0, "a", "1"), group.contribute(1, "a", "2");
  group.run();
  for (const auto& process : group.all) {
    EXPECT_TRUE(process->entries.front().failed);
    EXPECT_NE(process->entries.front().text.find("the text under `" + key +
                                                 "`: a member must be an integer in [0, 1], but is '7'"),
              std::string::npos)
        << process->entries.front().text;
  }
}

TEST(GroupMachine, DamagedTextsAreErrorsOrEntries) {
  std::mt19937_64 random(8);
  int refused = 0;
  for (int i = 0; i < 2'000; ++i) {
    const auto stores = in_memory_stores(2);
    Group group(stores, random);
    const std::string good = i % 2 == 0 ? "4 abcd2 " : "1 a0 0 3 xyz";
    std::string bad = mutations_testing::mutated(good, random);
    if (bad.empty()) bad = "-";
    try {
      if (i % 2 == 0) {
        stores[0]->set("life", bad);
        group.run(40);
      } else {
        group.meet();
        group.store().set(group.at(0).machine.prefix() + "log/1", bad);
        group.run();
      }
    } catch (const PeerTextError& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find("the text under `life"), std::string::npos);
    }
  }
  EXPECT_GT(refused, 100);
}

std::vector<int> missing(Group& group, int process, const std::string& key) {
  std::vector<int> ranks;
  for (const auto& late : group.at(process).machine.missing(group.store(), key)) ranks.push_back(late.rank);
  return ranks;
}

TEST(GroupMachine, NamesTheRanksThatHaveNotCome) {
  std::mt19937_64 random(9);
  const auto stores = in_memory_stores(4);
  Group group({stores[0], stores[2]}, random);
  group.meet();
  EXPECT_EQ(missing(group, 0, ""), (std::vector<int>{1, 3}));
  EXPECT_EQ(missing(group, 1, ""), (std::vector<int>{1, 3}));

  Group without_first({in_memory_stores(2)[1]}, random);
  without_first.meet();
  EXPECT_EQ(missing(without_first, 0, ""), std::vector<int>{0});
}

TEST(GroupMachine, NamesTheRanksThatHaveNotContributed) {
  std::mt19937_64 random(10);
  for (const int size : {2, 31, 33, 70, 1'100}) {
    Group group(size, random);
    group.meet();
    std::set<int> late;
    for (int i = 0; i < 3; ++i) late.insert(static_cast<int>(random() % static_cast<std::uint64_t>(size)));
    for (int rank = 0; rank < size; ++rank)
      if (!late.contains(rank)) group.contribute(rank, "a", "1");
    group.run();
    EXPECT_EQ(missing(group, 0, "a"), std::vector<int>(late.begin(), late.end()));
  }
}

TEST(GroupMachine, NothingIsLeftWhenAllHaveGone) {
  std::mt19937_64 random(11);
  for (const int size : {1, 2, 40}) {
    Group group(size, random);
    group.meet();
    for (int round = 0; round < 5; ++round) {
      for (int rank = 0; rank < size; ++rank) group.contribute(rank, "a/" + std::to_string(round), "1");
      group.at(round % size).machine.post("a/news-" + std::to_string(round), "x");
      group.at(round % size).take();
      group.run(static_cast<std::int64_t>(random() % 200));
    }
    if (size > 2) group.contribute(1, "a/interrupted", "1");  // the others never contribute
    for (auto& process : group.all) process->machine.end("a/"), process->take();
    group.run();
    group.leave();
    EXPECT_EQ(group.keys(), 0U) << size;
  }
}

TEST(GroupMachine, ALifeThatHasEndedDoesNotHinderTheNext) {
  std::mt19937_64 random(12);
  const auto stores = in_memory_stores(3);
  for (int life = 0; life < 5; ++life) {
    Group group(stores, random);
    group.meet();
    EXPECT_TRUE(group.met());
    group.leave();
    EXPECT_EQ(group.keys(), 0U);
  }
}

TEST(GroupMachine, TheLogStaysShort) {
  std::mt19937_64 random(13);
  Group group(5, random);
  group.meet();
  std::size_t most = 0;
  for (int round = 0; round < 200; ++round) {
    for (int rank = 0; rank < 5; ++rank) group.contribute(rank, "a/" + std::to_string(round), "1");
    group.run();
    most = std::max(most, group.keys());
  }
  EXPECT_LT(most, 20U);
}

/// Requests of all processes together, and the longest text of any.
struct Cost {
  std::int64_t requests = 0;
  std::size_t longest = 0;
};
Cost cost_of(const Group& group) {
  Cost cost;
  for (const auto& process : group.all) {
    cost.requests += process->asked;
    cost.longest = std::max(cost.longest, process->longest);
  }
  return cost;
}

TEST(GroupMachine, WhatAProcessSaysDoesNotGrowWithTheirNumber) {
  std::mt19937_64 random(14);
  for (const int size : {64, 512, 4'096, 16'384}) {
    Group group(size, random);
    group.meet();
    const Cost met = cost_of(group);
    for (int rank = 0; rank < size; ++rank) group.contribute(rank, "a", "1");
    group.run();
    const Cost reduced = cost_of(group);
    EXPECT_EQ(group.at(size / 2).entries.back().text, std::to_string(size));
    EXPECT_LE(met.requests, 9 * size) << size;
    EXPECT_LE(reduced.requests - met.requests, 4 * size) << size;
    EXPECT_LE(reduced.longest, static_cast<std::size_t>(GroupMachine::kFanIn) * 16) << size;
  }
}

}  // namespace
}  // namespace torch_distinput
