// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/key_value_store.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

#include "comm/c10d_store.h"
#include "comm/group_link.h"
#include "comm/restarts.h"
#include "support/errors.h"
#include "support/in_memory_stores.h"
#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using namespace std::chrono_literals;
using Ranks = std::vector<KeyValueStorePtr>;

/// The stores of a group whose name no other test uses.
Ranks over(c10d::Store& store, int size) {
  static int groups = 0;
  const std::string name = "test " + std::to_string(groups++);
  Ranks ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(c10d_store(ProcessGroup(store, rank, size, name)));
  return ranks;
}

Ranks over_hash_store(int size) { return over(*c10::make_intrusive<c10d::HashStore>(), size); }

Ranks over_tcp_store(int size) {
  static const auto server = [] {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    return c10::make_intrusive<c10d::TCPStore>("localhost", options);
  }();
  return over(*server, size);
}

/// What `rank` finds under `keys`. Polls, because one connection may see what another sent a moment later.
std::vector<std::string> found(KeyValueStore& rank, const std::vector<std::string>& keys) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline) {
    if (auto texts = rank.multi_get(keys)) return *texts;
    std::this_thread::yield();
  }
  return {};
}

/// A store of c10d without `append`.
Ranks over_file_store(int size) {
  const auto file = std::filesystem::temp_directory_path() / ("tdi-store-" + std::to_string(::getpid()) +
                                                              "-" + std::to_string(std::random_device{}()));
  return over(*c10::make_intrusive<c10d::FileStore>(file.string(), size), size);
}

class KeyValueStoreTest : public testing::TestWithParam<std::function<Ranks(int)>> {
 protected:
  Ranks ranks_ = GetParam()(3);
};

TEST_P(KeyValueStoreTest, KnowsItsRankAndTheSize) {
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks_[static_cast<std::size_t>(rank)]->rank(), rank);
    EXPECT_EQ(ranks_[static_cast<std::size_t>(rank)]->size(), 3);
  }
}

TEST_P(KeyValueStoreTest, OneRankReadsWhatAnotherSet) {
  ranks_[0]->set("greeting", "hello\nworld");
  EXPECT_EQ(found(*ranks_[2], {"greeting"}), std::vector<std::string>{"hello\nworld"});
  ranks_[2]->set("greeting", "again");
  EXPECT_EQ(ranks_[2]->multi_get({"greeting"}), std::vector<std::string>{"again"});
}

TEST_P(KeyValueStoreTest, MultiGetReturnsNothingUnlessAllKeysAreThere) {
  ranks_[0]->set("a", "1");
  EXPECT_FALSE(ranks_[1]->multi_get({"a", "b"}));
  ranks_[2]->set("b", "2");
  EXPECT_EQ(found(*ranks_[1], {"b", "a"}), (std::vector<std::string>{"2", "1"}));
}

TEST_P(KeyValueStoreTest, AnAwaitedTextIsFoundBeforeAndAfterItIsSet) {
  auto waits = std::async(std::launch::async, [&] { return ranks_[1]->await("late", 20s); });
  ranks_[0]->set("late", "here");
  EXPECT_EQ(waits.get(), "here");
  EXPECT_EQ(ranks_[1]->await("late", 20s), "here");
}

TEST_P(KeyValueStoreTest, AnAwaitedTextThatDoesNotComeIsNothingAndTheStoreGoesOn) {
  EXPECT_EQ(ranks_[1]->await("never", 10ms), std::nullopt);
  ranks_[0]->set("a", "1");
  EXPECT_EQ(ranks_[1]->await("a", 20s), "1");
}

TEST_P(KeyValueStoreTest, AWaitDoesNotHoldUpOtherRequestsOfItsRank) {
  auto waits = std::async(std::launch::async, [&] { return ranks_[1]->await("mine", 20s); });
  ranks_[1]->set("mine", "x");
  EXPECT_EQ(waits.get(), "x");
}

TEST_P(KeyValueStoreTest, TheFirstOfSeveralTextsStays) {
  EXPECT_EQ(ranks_[1]->compare_set("failed", "rank 1"), "rank 1");
  EXPECT_EQ(ranks_[2]->compare_set("failed", "rank 2"), "rank 1");
  EXPECT_EQ(found(*ranks_[0], {"failed"}), std::vector<std::string>{"rank 1"});
}

TEST_P(KeyValueStoreTest, ConcurrentAppendsAreCompleteAndUndivided) {
  constexpr int kTexts = 30;
  std::vector<std::thread> threads;
  for (const auto& rank : ranks_) {
    threads.emplace_back([&rank] {
      for (int i = 0; i < kTexts; ++i)
        rank->append("log", std::to_string(rank->rank()) + ":" + std::to_string(i) + ";");
    });
  }
  for (auto& thread : threads) thread.join();
  // One connection may see what another sent a moment later.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::vector<std::string> texts;
  while (texts.size() < 3 * kTexts && std::chrono::steady_clock::now() < deadline) {
    std::istringstream log(ranks_[0]->multi_get({"log"}).value_or(std::vector<std::string>(1)).front());
    texts.clear();
    for (std::string text; std::getline(log, text, ';');) texts.push_back(text);
  }
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<std::string> mine, expected;
    for (int i = 0; i < kTexts; ++i) expected.push_back(std::to_string(rank) + ":" + std::to_string(i));
    for (const auto& text : texts)
      if (text.front() == static_cast<char>('0' + rank)) mine.push_back(text);
    EXPECT_EQ(mine, expected);
  }
}

TEST_P(KeyValueStoreTest, NumbersAddUpOverTheRanks) {
  EXPECT_EQ(ranks_[0]->add("n", 2), 2);
  EXPECT_EQ(ranks_[1]->add("n", 3), 5);
}

TEST_P(KeyValueStoreTest, WhatIsRemovedIsGone) {
  ranks_[0]->set("a", "1");
  ranks_[0]->remove("a");
  ranks_[0]->remove("a");
  EXPECT_FALSE(ranks_[0]->multi_get({"a"}));
}

INSTANTIATE_TEST_SUITE_P(InMemory, KeyValueStoreTest, testing::Values(in_memory_stores));
INSTANTIATE_TEST_SUITE_P(HashStore, KeyValueStoreTest, testing::Values(over_hash_store));
INSTANTIATE_TEST_SUITE_P(FileStore, KeyValueStoreTest, testing::Values(over_file_store));
INSTANTIATE_TEST_SUITE_P(TCPStore, KeyValueStoreTest, testing::Values(over_tcp_store));

/// A store whose host may be frozen: no call returns before `go_on`.
class FreezableStore final : public c10d::HashStore {
 public:
  void freeze() {
    const std::lock_guard lock(mutex_);
    frozen_ = true;
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    frozen_ = false;
    wake_.notify_all();
  }

  c10::intrusive_ptr<Store> clone() override {
    return c10::intrusive_ptr<Store>::unsafe_reclaim_from_nonowning(this);
  }
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override {
    pass();
    return HashStore::compareSet(key, expected, desired);
  }
  void append(const std::string& key, const std::vector<std::uint8_t>& value) override {
    pass();
    HashStore::append(key, value);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    pass();
    return HashStore::add(key, value);
  }

 private:
  void pass() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return !frozen_; });
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool frozen_ = false;
};

class FrozenStoreTest : public testing::Test {
 protected:
  ~FrozenStoreTest() override { store_->go_on(); }

  c10::intrusive_ptr<FreezableStore> store_ = c10::make_intrusive<FreezableStore>();
  KeyValueStorePtr rank_ = c10d_store(ProcessGroup(*store_, 0, 1, "test"));
};

TEST_F(FrozenStoreTest, AnInterruptEndsTheWaitAsItIs) {
  store_->freeze();
  // An interrupt is not reported as an error of the store, even if it is a std::exception.
  const InterruptScope ctrl_c([] { throw std::out_of_range("Ctrl-C"); });
  EXPECT_THROW(rank_->multi_get({"a"}), std::out_of_range);
}

TEST_F(FrozenStoreTest, AGroupMeetsAfterAnInterrupt) {
  store_->freeze();
  GroupLink link(rank_);
  {
    const InterruptScope ctrl_c([] { throw std::out_of_range("Ctrl-C"); });
    EXPECT_THROW(link.meet({"test", 60s}), std::out_of_range);
  }
  store_->go_on();
  link.meet({"test", 60s});
}

TEST_F(FrozenStoreTest, ALinkWaitsBrieflyForAFrozenStoreWhenItEnds) {
  const auto start = std::chrono::steady_clock::now();
  {
    GroupLink link(rank_);
    link.meet({"test", 60s});
    store_->freeze();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

/// A store whose connection ends at the first call.
class EndingStore final : public c10d::HashStore {
 public:
  c10::intrusive_ptr<Store> clone() override {
    return c10::intrusive_ptr<Store>::unsafe_reclaim_from_nonowning(this);
  }
  void set(const std::string&, const std::vector<std::uint8_t>&) override {
    ++calls;
    C10_THROW_ERROR(DistNetworkError, "Connection reset by peer");
  }
  int calls = 0;
};

TEST(LostStore, IsNotCalledAgain) {
  const auto store = c10::make_intrusive<EndingStore>();
  const KeyValueStorePtr rank = c10d_store(ProcessGroup(*store, 1, 3, "test"));
  const auto refusal = [&] { return message_of<DistributedDatasetError>([&] { rank->set("a", "b"); }); };
  const std::string wanted =
      "rank 1 lost the store of the process group, whose host may have ended: Connection reset by peer";
  EXPECT_EQ(refusal(), wanted);
  EXPECT_EQ(refusal(), wanted);
  EXPECT_EQ(store->calls, 1);
}

TEST(LostStore, AfterARestartTheErrorSaysWhatMayHelp) {
  ::setenv("TORCHELASTIC_RESTART_COUNT", "2", 1);
  ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  const std::string shared = advice_after_restart();
  ::setenv("TORCHELASTIC_USE_AGENT_STORE", "False", 1);
  EXPECT_EQ(advice_after_restart(), "");
  ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  ::setenv("TORCHELASTIC_RESTART_COUNT", "0", 1);
  EXPECT_EQ(advice_after_restart(), "");
  ::unsetenv("TORCHELASTIC_RESTART_COUNT");
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  EXPECT_NE(shared.find("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"), std::string::npos) << shared;
}

TEST(ProcessGroup, RefusesARankThatIsNotInIt) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_THROW(ProcessGroup(*store, 2, 2, "test"), c10::ValueError);
  EXPECT_THROW(ProcessGroup(*store, -1, 2, "test"), c10::ValueError);
  EXPECT_THROW(ProcessGroup(*store, 0, 0, "test"), c10::ValueError);
  EXPECT_THROW(ProcessGroup(*store, 0, 1, ""), c10::ValueError);
}

TEST(ProcessGroup, TakesRankSizeAndStoreOfAGroupOfTorch) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto of_torch = c10::make_intrusive<c10d::ProcessGroup>(store, /*rank=*/1, /*size=*/3);
  const ProcessGroup group(*of_torch, "test");
  EXPECT_EQ(group.rank, 1);
  EXPECT_EQ(group.size, 3);
  EXPECT_EQ(group.name, "test");
  c10d_store(ProcessGroup(*store, 0, 3, "test"))->set("a", "1");
  EXPECT_EQ(c10d_store(group)->multi_get({"a"}), std::vector<std::string>{"1"});
  const auto without_store = c10::make_intrusive<c10d::ProcessGroup>(/*rank=*/0, /*size=*/1);
  EXPECT_THROW(ProcessGroup{*without_store}, c10::ValueError);
}

TEST(ProcessGroup, GroupsOfOtherNamesDoNotShareTexts) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto first = c10d_store(ProcessGroup(*store, 0, 2, "first"));
  const auto second = c10d_store(ProcessGroup(*store, 0, 2, "second"));
  first->set("a", "1");
  EXPECT_FALSE(second->multi_get({"a"}));
}

}  // namespace
}  // namespace torch_distinput
