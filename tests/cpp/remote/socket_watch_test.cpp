// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/socket_watch.h"

#include <array>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace torch_distinput {
namespace {

constexpr int kLongest = 60'000;  // milliseconds that no wait here takes

/// Two sockets that hear each other.
struct Pair {
  Pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0); }
  ~Pair() {
    for (const int end : ends) ::close(end);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  void say() const { EXPECT_EQ(::write(ends[1], "x", 1), 1); }

  std::array<int, 2> ends{};
};

TEST(SocketWatch, TellsWhichSocketsAreReady) {
  SocketWatch sockets;
  const Pair silent;
  const Pair ready;
  sockets.watch(silent.ends[0], EPOLLIN);
  sockets.watch(ready.ends[0], EPOLLIN);
  ready.say();
  const auto found = sockets.wait(kLongest);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().data.fd, ready.ends[0]);
  EXPECT_EQ(found.front().events, EPOLLIN);
}

TEST(SocketWatch, AwaitsWhatItWasToldLast) {
  SocketWatch sockets;
  const Pair pair;
  sockets.watch(pair.ends[0], EPOLLIN | EPOLLOUT);
  EXPECT_EQ(sockets.wait(kLongest).size(), 1U);
  sockets.watch(pair.ends[0], EPOLLIN);
  EXPECT_TRUE(sockets.wait(0).empty());
  pair.say();
  sockets.forget(pair.ends[0]);
  EXPECT_TRUE(sockets.wait(0).empty());
}

TEST(SocketWatch, EndsOneWaitForAnyNumberOfWakes) {
  SocketWatch sockets;
  std::thread([&] {
    sockets.wake();
    sockets.wake();
  }).join();
  EXPECT_TRUE(sockets.wait(kLongest).empty());
  EXPECT_TRUE(sockets.wait(0).empty());
}

}  // namespace
}  // namespace torch_distinput
