// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/frame_ring.h"

#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

class FrameRingTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kCapacity = 64;

  std::string random_frame(std::size_t longest) {
    std::string frame(random_() % (longest + 1), 'x');
    for (char& byte : frame) byte = static_cast<char>(random_());
    return frame;
  }

  RingCounters counters_{};
  std::vector<char> bytes_ = std::vector<char>(kCapacity);
  FrameSender sender_{counters_, bytes_.data(), kCapacity};
  FrameReceiver receiver_{counters_, bytes_.data(), kCapacity};
  std::mt19937 random_{7};
};

TEST_F(FrameRingTest, FramesOfAnyLengthArriveInOrderWhateverTheTurns) {
  std::deque<std::string> sent;
  std::string frame;
  bool made_room = false;
  int received = 0;
  for (int turn = 0; turn < 20000; ++turn) {
    if (random_() % 2 == 0 && sent.size() < 20) {
      sent.push_back(random_frame(turn % 100 == 0 ? 10 * kCapacity : kCapacity / 3));
      sender_.send(sent.back());
    } else if (receiver_.receive(frame, made_room)) {
      ASSERT_FALSE(sent.empty());
      ASSERT_EQ(frame, sent.front());
      sent.pop_front();
      ++received;
    } else {
      sender_.flush();
    }
  }
  EXPECT_GT(received, 5000);
}

TEST_F(FrameRingTest, AFrameThatFitsIsNeverSeenInPart) {
  std::string frame;
  bool made_room = false;
  sender_.send(std::string(40, 'a'));
  sender_.send(std::string(40, 'b'));  // waits in the backlog
  EXPECT_FALSE(sender_.empty());
  EXPECT_EQ(counters_.written.load(), 48U);
  ASSERT_TRUE(receiver_.receive(frame, made_room));
  EXPECT_TRUE(made_room);
  EXPECT_FALSE(receiver_.receive(frame, made_room));
  EXPECT_TRUE(sender_.flush());
  EXPECT_TRUE(sender_.empty());
  ASSERT_TRUE(receiver_.receive(frame, made_room));
  EXPECT_EQ(frame, std::string(40, 'b'));
}

TEST_F(FrameRingTest, TheReaderIsToldOfRoomOnlyWhileTheWriterWaitsForIt) {
  std::string frame;
  bool made_room = true;
  sender_.send("fits");
  ASSERT_TRUE(receiver_.receive(frame, made_room));
  EXPECT_FALSE(made_room);
  sender_.send(std::string(40, 'a'));
  sender_.send(std::string(40, 'b'));  // waits in the backlog
  ASSERT_TRUE(receiver_.receive(frame, made_room));
  EXPECT_TRUE(made_room);
  ASSERT_TRUE(sender_.flush());
  ASSERT_TRUE(receiver_.receive(frame, made_room));
  EXPECT_FALSE(made_room);
}

TEST_F(FrameRingTest, EmptyFramesAreFrames) {
  std::string frame = "before";
  bool made_room = false;
  EXPECT_FALSE(receiver_.receive(frame, made_room));
  sender_.send("");
  ASSERT_TRUE(receiver_.receive(frame, made_room));
  EXPECT_EQ(frame, "");
}

}  // namespace
}  // namespace torch_distinput
