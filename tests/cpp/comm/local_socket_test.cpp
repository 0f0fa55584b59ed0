// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/local_socket.h"

#include <chrono>
#include <functional>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/met_links.h"

namespace torch_distinput {
namespace {

using namespace std::chrono_literals;

std::string new_address() { return new_host("").address; }

void eventually(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!done()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the condition did not become true";
    std::this_thread::yield();
  }
}

/// The two ends of a connection.
struct Pair {
  explicit Pair(const std::string& address) : listener(LocalListener::at(address).value()) {
    there = LocalConnection::to(address);
    eventually([&] { return (here = listener.accept()).has_value(); });
  }
  LocalListener listener;
  std::optional<LocalConnection> there, here;
};

TEST(LocalSocket, TextsArriveWholeAndInOrder) {
  Pair pair(new_address());
  std::vector<std::string> sent;
  // More than the socket's buffer holds, so that it takes several calls.
  for (const std::size_t size : {0UL, 1UL, 70'000UL, 3'000'000UL, 5UL})
    sent.emplace_back(size, 'a' + size % 7);
  for (const auto& text : sent) pair.there->send(text);
  std::vector<std::string> received;
  eventually([&] {
    for (auto& text : pair.here->receive()) received.push_back(std::move(text));
    pair.there->flush();
    return received.size() == sent.size();
  });
  EXPECT_EQ(received, sent);
  EXPECT_FALSE(pair.here->ended());
}

TEST(LocalSocket, OneProcessHasAnAddress) {
  const std::string address = new_address();
  const auto first = LocalListener::at(address);
  EXPECT_TRUE(first);
  EXPECT_FALSE(LocalListener::at(address));
}

TEST(LocalSocket, AListenerThatHasEndedRefuses) {
  const std::string address = new_address();
  EXPECT_FALSE(LocalConnection::to(address));
  LocalListener::at(address).reset();
  EXPECT_FALSE(LocalConnection::to(address));
  EXPECT_TRUE(LocalListener::at(address));
}

TEST(LocalSocket, WhatWasSentBeforeTheEndArrives) {
  Pair pair(new_address());
  pair.there->send("last words");
  pair.there.reset();
  std::vector<std::string> received;
  eventually([&] {
    for (auto& text : pair.here->receive()) received.push_back(std::move(text));
    return pair.here->ended();
  });
  EXPECT_EQ(received, std::vector<std::string>{"last words"});
}

/// A process that connects, sends a text, and whose child holds the socket beyond its end. Returns the child,
/// which ends when `until` is closed.
struct Orphan {
  explicit Orphan(const std::string& address) {
    int told[2], holds[2];
    EXPECT_EQ(::pipe(told) + ::pipe(holds), 0);
    until = holds[1];
    parent = ::fork();
    if (parent == 0) {
      auto connection = LocalConnection::to(address);
      connection->send("hello");
      if (::fork() == 0) {
        ::close(holds[1]);
        char byte = 0;
        [[maybe_unused]] const auto read = ::read(holds[0], &byte, 1);
        ::_exit(0);
      }
      [[maybe_unused]] const auto written = ::write(told[1], "x", 1);
      ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(told[0], &byte, 1), 1);
    for (const int end : {told[0], told[1], holds[0]}) ::close(end);
  }
  ~Orphan() { ::close(until); }
  void kill() {
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
  }
  pid_t parent = 0;
  int until = 0;
};

TEST(LocalSocket, TheEndOfAProcessIsSeenThoughItsChildHoldsTheSocket) {
  const std::string address = new_address();
  auto listener = LocalListener::at(address).value();
  Orphan orphan(address);
  std::optional<LocalConnection> here;
  eventually([&] { return (here = listener.accept()).has_value(); });
  EXPECT_EQ(here->process_number(), orphan.parent);
  std::vector<std::string> received;
  eventually([&] { return !(received = here->receive()).empty(); });
  EXPECT_EQ(received, std::vector<std::string>{"hello"});
  if (here->process() < 0) GTEST_SKIP() << "the kernel has no descriptors of processes";
  pollfd process{here->process(), POLLIN, 0};
  EXPECT_EQ(::poll(&process, 1, 0), 0);
  orphan.kill();
  EXPECT_EQ(::poll(&process, 1, 20'000), 1);
  here->process_ended();
  EXPECT_TRUE(here->receive().empty());
  EXPECT_TRUE(here->ended());
}

}  // namespace
}  // namespace torch_distinput
