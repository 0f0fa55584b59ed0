// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/all_gather.h"

#include <functional>
#include <future>
#include <stdexcept>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "comm/c10d_store.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

const WaitOptions kWaitOptions{"test", std::chrono::seconds(60)};

class StoreAllGatherTest : public testing::Test {
 protected:
  static constexpr int kRanks = 3;

  StoreAllGatherTest() {
    for (int rank = 0; rank < kRanks; ++rank)
      board_.push_back(c10d_store(ProcessGroup(*store_, rank, kRanks, "test")));
  }

  std::unique_ptr<AllGather> rounds_of(int rank) {
    return all_gather_over_store(board_[static_cast<std::size_t>(rank)], "round");
  }

  /// Runs `body` for every rank in a thread of its own; the rank's rounds are destroyed afterwards.
  void on_all(const std::function<void(int rank, AllGather& rounds)>& body) {
    std::vector<std::future<void>> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.push_back(std::async(std::launch::async, [&, rank] { body(rank, *rounds_of(rank)); }));
    }
    for (auto& rank : ranks) rank.get();
  }

  c10::intrusive_ptr<c10d::HashStore> store_ = c10::make_intrusive<c10d::HashStore>();
  std::vector<KeyValueStorePtr> board_;
};

std::string text_of(int rank, int round) {
  // Of any length, 0 included, and with bytes that also delimit a frame.
  return std::string(static_cast<std::size_t>((7 * rank + 3 * round) % 40), round % 2 == 0 ? '\n' : ' ') +
         (round % 3 == 0 ? "" : "0 1 " + std::to_string(100 * rank + round));
}

TEST_F(StoreAllGatherTest, EveryRankReceivesAllTextsOfEveryRound) {
  on_all([](int, AllGather&) {});
  on_all([](int rank, AllGather& rounds) {
    for (int round = 0; round < 200; ++round) {
      EXPECT_EQ(rounds.run(text_of(rank, round), kWaitOptions),
                (std::vector<std::string>{text_of(0, round), text_of(1, round), text_of(2, round)}));
    }
  });
}

TEST_F(StoreAllGatherTest, TheStoreStaysSmallAndIsEmptyInTheEnd) {
  const std::int64_t before = store_->getNumKeys();
  on_all([&](int rank, AllGather& rounds) {
    for (int round = 0; round < 50; ++round) {
      rounds.run("text", kWaitOptions);
      // Texts of the two rounds before, of this one and of the next one, and the count of ranks that left.
      if (rank == 0) {
        EXPECT_LE(store_->getNumKeys() - before, 5);
      }
    }
  });
  EXPECT_EQ(store_->getNumKeys(), before);
}

TEST_F(StoreAllGatherTest, AnInterruptedRoundContinues) {
  auto first = rounds_of(0);
  struct Broken {};
  int looks = 0;
  WaitOptions hasty = kWaitOptions;
  hasty.check = [&] {
    if (++looks == 3) throw Broken();
  };
  EXPECT_THROW(first->run("a", hasty), Broken);
  auto others = std::async(std::launch::async, [&] {
    auto third = std::async(std::launch::async, [&] { return rounds_of(2)->run("c", kWaitOptions); });
    auto received = rounds_of(1)->run("b", kWaitOptions);
    EXPECT_EQ(third.get(), received);
    return received;
  });
  EXPECT_EQ(first->run("a", kWaitOptions), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(others.get(), (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(StoreAllGatherTest, NamesTheRanksThatSendNothing) {
  auto second = rounds_of(1);
  try {
    second->run("b", {"The round", std::chrono::milliseconds(5)});
    FAIL() << "nothing was thrown";
  } catch (const DistributedDatasetError& error) {
    EXPECT_NE(std::string(error.what()).find("for ranks 0 and 2"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace torch_distinput
