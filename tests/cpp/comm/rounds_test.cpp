// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/rounds.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "comm/store_communicator.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

const Patience kPatience{"test", std::chrono::seconds(60)};

class RoundsOnBoardTest : public testing::Test {
 protected:
  static constexpr int kRanks = 3;

  RoundsOnBoardTest() {
    for (int rank = 0; rank < kRanks; ++rank)
      board_.push_back(store_communicator(ProcessGroup(*store_, rank, kRanks, "test")));
  }

  std::unique_ptr<Rounds> rounds_of(int rank) {
    return rounds_on_board(board_[static_cast<std::size_t>(rank)], "round");
  }

  /// Every rank in a thread of its own, with its rounds, which are gone afterwards.
  void on_all(const std::function<void(int rank, Rounds& rounds)>& body) {
    std::vector<std::future<void>> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.push_back(std::async(std::launch::async, [&, rank] { body(rank, *rounds_of(rank)); }));
    }
    for (auto& rank : ranks) rank.get();
  }

  c10::intrusive_ptr<c10d::HashStore> store_ = c10::make_intrusive<c10d::HashStore>();
  std::vector<CommunicatorPtr> board_;
};

std::string said(int rank, int round) {
  // Of any length, nothing at all included, and with bytes that a frame has too.
  return std::string(static_cast<std::size_t>((7 * rank + 3 * round) % 40), round % 2 == 0 ? '\n' : ' ') +
         (round % 3 == 0 ? "" : "0 1 " + std::to_string(100 * rank + round));
}

TEST_F(RoundsOnBoardTest, EveryRankHearsAllTextsOfEveryRound) {
  on_all([](int, Rounds&) {});
  on_all([](int rank, Rounds& rounds) {
    for (int round = 0; round < 200; ++round) {
      EXPECT_EQ(rounds.hold(said(rank, round), kPatience),
                (std::vector<std::string>{said(0, round), said(1, round), said(2, round)}));
    }
  });
}

TEST_F(RoundsOnBoardTest, TheBoardStaysSmallAndIsEmptyInTheEnd) {
  const std::int64_t before = store_->getNumKeys();
  on_all([&](int rank, Rounds& rounds) {
    for (int round = 0; round < 50; ++round) {
      rounds.hold("text", kPatience);
      // Of two rounds before, of this one and of the next one, and who has gone.
      if (rank == 0) {
        EXPECT_LE(store_->getNumKeys() - before, 5);
      }
    }
  });
  EXPECT_EQ(store_->getNumKeys(), before);
}

TEST_F(RoundsOnBoardTest, ARoundThatWasBrokenOffGoesOn) {
  auto first = rounds_of(0);
  struct Broken {};
  int looks = 0;
  Patience hasty = kPatience;
  hasty.check = [&] {
    if (++looks == 3) throw Broken();
  };
  EXPECT_THROW(first->hold("a", hasty), Broken);
  auto others = std::async(std::launch::async, [&] {
    auto third = std::async(std::launch::async, [&] { return rounds_of(2)->hold("c", kPatience); });
    auto heard = rounds_of(1)->hold("b", kPatience);
    EXPECT_EQ(third.get(), heard);
    return heard;
  });
  EXPECT_EQ(first->hold("a", kPatience), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(others.get(), (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(RoundsOnBoardTest, NamesTheRanksThatSayNothing) {
  auto second = rounds_of(1);
  try {
    second->hold("b", {"The round", std::chrono::milliseconds(5)});
    FAIL() << "nothing was thrown";
  } catch (const DistributedDatasetError& error) {
    EXPECT_NE(std::string(error.what()).find("for ranks 0 and 2"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace torch_distinput
