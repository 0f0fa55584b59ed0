// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/read_at_once.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

/// Where two threads wait for each other.
class Meeting {
 public:
  /// Whether the other one came within ten seconds.
  bool come() {
    std::unique_lock lock(mutex_);
    ++there_;
    changed_.notify_all();
    return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return there_ >= 2; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int there_ = 0;
};

TEST(ReadAtOnce, ReadsEachNumberOnce) {
  for (const std::size_t threads : {0, 1, 3, 20}) {
    for (const std::size_t count : {0, 1, 2, 7, 100}) {
      std::vector<std::atomic<int>> reads(count);
      read_at_once(count, threads, [&](std::size_t number) { ++reads[number]; });
      for (const auto& times : reads) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ReadAtOnce, OtherThreadsReadWhileTheCallerDoes) {
  Meeting meeting;
  read_at_once(2, 1, [&](std::size_t) { EXPECT_TRUE(meeting.come()); });
}

TEST(ReadAtOnce, AnErrorOfTheCallerIsThrownWhenNoThreadReadsAnyMore) {
  constexpr int kNumbers = 20'000'000;  // many seconds of reads
  Meeting meeting;
  std::atomic<int> begun = 0;
  std::atomic<int> reading = 0;
  const auto caller = std::this_thread::get_id();
  const auto read = [&](std::size_t) {
    ++reading;
    ++begun;
    meeting.come();
    if (std::this_thread::get_id() == caller) {
      --reading;
      throw std::runtime_error("bad");
    }
    std::this_thread::yield();
    --reading;
  };
  EXPECT_THROW(read_at_once(kNumbers, 2, read), std::runtime_error);
  EXPECT_EQ(reading, 0);
  EXPECT_LT(begun, kNumbers);
}

TEST(ReadAtOnce, AnErrorOfAnotherThreadLeavesItsNumberUnread) {
  Meeting meeting;
  const auto caller = std::this_thread::get_id();
  std::vector<std::atomic<int>> reads(20);
  read_at_once(reads.size(), 1, [&](std::size_t number) {
    meeting.come();
    if (std::this_thread::get_id() != caller) throw std::runtime_error("bad");
    ++reads[number];
  });
  int read = 0;
  for (const auto& times : reads) read += times;
  EXPECT_EQ(read, 19);
}

}  // namespace
}  // namespace torch_distinput
