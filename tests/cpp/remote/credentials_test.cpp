// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/credentials.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

using namespace std::chrono_literals;

StorageOptions nothing() { return {}; }

/// Runs `work` on eight threads.
template <class Work>
void side_by_side(Work work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

/// A callback that counts its calls: credentials {"key": "<call>"}, good for `good` from now on.
class Giver {
 public:
  explicit Giver(std::chrono::seconds good) : good_(good) {}
  CredentialCallback callback() {
    return [this](const std::string& url) -> StorageOptions {
      EXPECT_EQ(url, "s3://bucket");
      const auto until = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() + good_);
      return {{"key", std::to_string(++calls)}, {"expires", std::to_string(until)}};
    };
  }
  std::atomic<int> calls{0};

 private:
  std::chrono::seconds good_;
};

TEST(Credentials, AreThoseThatAreFoundWithoutAskingAnybody) {
  Giver giver(1h);
  const Credentials credentials([] { return StorageOptions{{"key", "found"}}; }, giver.callback(),
                                "s3://bucket");
  credentials.prepare(std::chrono::system_clock::now());
  EXPECT_EQ(credentials.get("key"), "found");
  EXPECT_EQ(credentials.get("secret"), "");
  EXPECT_EQ(giver.calls, 0);
}

TEST(Credentials, AreAnonymousWhereNothingHasThem) {
  const Credentials credentials(nothing, {}, "s3://bucket");
  credentials.prepare(std::chrono::system_clock::now());
  EXPECT_TRUE(credentials.get()->empty());
  EXPECT_FALSE(credentials.refresh());
}

TEST(Credentials, AreAskedForBeforeTheyAreNeeded) {
  Giver giver(1h);
  const Credentials credentials(nothing, giver.callback(), "s3://bucket");
  EXPECT_EQ(giver.calls, 0);
  for (int i = 0; i < 3; ++i) credentials.prepare(std::chrono::system_clock::now());
  EXPECT_EQ(credentials.get("key"), "1");
  EXPECT_EQ(giver.calls, 1);
}

TEST(Credentials, AreReplacedFiveMinutesBeforeTheyExpire) {
  Giver giver(1h);
  const Credentials credentials(nothing, giver.callback(), "s3://bucket");
  const auto begin = std::chrono::system_clock::now();
  credentials.prepare(begin);
  credentials.prepare(begin + 54min);
  EXPECT_EQ(credentials.get("key"), "1");
  credentials.prepare(begin + 56min);
  EXPECT_EQ(credentials.get("key"), "2");
}

TEST(Credentials, ThatExpireAtOnceAreNotAskedForAllTheTime) {
  Giver giver(0s);
  const Credentials credentials(nothing, giver.callback(), "s3://bucket");
  const auto begin = std::chrono::system_clock::now();
  for (int i = 0; i < 5; ++i) credentials.prepare(begin);
  EXPECT_EQ(giver.calls, 1);
  credentials.prepare(begin + 1min);
  EXPECT_EQ(giver.calls, 2);
}

TEST(Credentials, WithoutATimeThatCanBeReadAreKept) {
  for (const char* expires : {"soon", "", "-1", "nan", "inf", "1e300"}) {
    const Credentials credentials(
        nothing, [&](const std::string&) { return StorageOptions{{"key", "k"}, {"expires", expires}}; }, "u");
    credentials.prepare(std::chrono::system_clock::now());
    credentials.prepare(std::chrono::system_clock::now() + 10'000h);
    EXPECT_EQ(credentials.get("key"), "k") << expires;
  }
}

TEST(Credentials, AreAskedForOnceByManyThreads) {
  for (int turn = 0; turn < 100; ++turn) {
    Giver giver(1h);
    const Credentials credentials(nothing, giver.callback(), "s3://bucket");
    side_by_side([&] {
      credentials.prepare(std::chrono::system_clock::now());
      ASSERT_EQ(credentials.get("key"), "1");
    });
    ASSERT_EQ(giver.calls, 1);
  }
}

TEST(Credentials, OfWhichTheStoreHasHadEnoughAreReplacedOnce) {
  Giver giver(1h);
  const Credentials credentials(nothing, giver.callback(), "s3://bucket");
  credentials.prepare(std::chrono::system_clock::now());
  EXPECT_TRUE(credentials.refresh());
  EXPECT_EQ(credentials.get("key"), "2");
  const Credentials same([] { return StorageOptions{{"key", "k"}}; }, {}, "s3://bucket");
  EXPECT_FALSE(same.refresh()) << "there are no others";
}

TEST(Credentials, AreAskedForAgainAfterTheCallbackFailed) {
  bool fails = true;
  const Credentials credentials(
      nothing,
      [&](const std::string&) -> StorageOptions {
        if (fails) throw std::logic_error("no vault");
        return {{"key", "k"}};
      },
      "s3://bucket");
  EXPECT_THROW(credentials.prepare(std::chrono::system_clock::now()), std::logic_error);
  EXPECT_THROW(credentials.refresh(), std::logic_error);
  EXPECT_TRUE(credentials.get()->empty());
  fails = false;
  credentials.prepare(std::chrono::system_clock::now());
  EXPECT_EQ(credentials.get("key"), "k");
}

}  // namespace
}  // namespace torch_distinput
