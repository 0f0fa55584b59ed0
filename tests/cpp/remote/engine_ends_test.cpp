// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "remote/over_http.h"
#include "support/errors.h"

namespace torch_distinput::http_testing {
namespace {

/// The entries of a folder of /proc.
std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

class EngineEnds : public OverHttp {
 protected:
  std::shared_ptr<RangeTransfer> transfer() const {
    return transfer_of(place_of(server_.url()), {server_.object().size(), HttpServer::kTag}, {0, 50'000});
  }
  static bool has_ended(const std::shared_ptr<RangeTransfer>& transfer) {
    const auto error = error_of([&] { transfer->wait(time_limit()); });
    return error && error->kind() == Kind::kUnavailable;
  }
  void wait_for_requests(int count) const {
    const Poll limit = time_limit();
    while (server_.requests() < count) {
      limit();
      std::this_thread::yield();
    }
  }

  /// Sends a part of each body, and no more.
  HttpServer server_{random_object(100'000), [](const Asked&, Reply right) {
                       right.sent = 1'000;
                       right.end = Reply::End::kHang;
                       return right;
                     }};
};

TEST_F(EngineEnds, WithinASecondWhileRequestsHang) {
  auto engine = std::make_unique<Engine>();
  std::vector<std::shared_ptr<RangeTransfer>> transfers;
  for (int i = 0; i < 10; ++i) engine->begin(transfers.emplace_back(transfer()));
  wait_for_requests(10);
  const auto begin = std::chrono::steady_clock::now();
  engine.reset();
  for (const auto& hanging : transfers) EXPECT_TRUE(has_ended(hanging));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST_F(EngineEnds, TransfersThatBeginLaterToo) {
  Engine engine;
  engine.end();
  const auto late = transfer();
  engine.begin(late);
  EXPECT_TRUE(has_ended(late));
}

TEST_F(EngineEnds, WhileThreadsBeginTransfersAndDropThem) {
  auto engine = std::make_unique<Engine>();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 100; ++turn) {
        const auto begun = transfer();
        const FetchId fetch = engine->begin(begun);
        engine->urge(fetch);
        if (turn % 2 == 0) continue;
        engine->drop(fetch);
        ASSERT_TRUE(has_ended(begun));
      }
    });
  }
  wait_for_requests(10);
  engine->end();
  for (std::thread& thread : threads) thread.join();
}

TEST_F(EngineEnds, WithoutLeavingDescriptorsAndThreads) {
  std::ptrdiff_t descriptors = 0;
  std::ptrdiff_t threads = 0;
  for (int turn = 0; turn < 200; ++turn) {
    auto engine = std::make_unique<Engine>();
    const auto begun = transfer();
    const FetchId fetch = engine->begin(begun);
    wait_for_requests(turn + 1);
    if (turn % 2 == 0) {
      engine->drop(fetch);
      ASSERT_TRUE(has_ended(begun));
    }
    engine.reset();
    ASSERT_TRUE(has_ended(begun));
    server_.wait_until_left();
    if (turn > 0) continue;
    descriptors = entries("/proc/self/fd");  // libcurl and the pool are set up now
    threads = entries("/proc/self/task");
  }
  EXPECT_LE(entries("/proc/self/fd"), descriptors);
  EXPECT_LE(entries("/proc/self/task"), threads + 1) << "one may be on its way out";
}

TEST_F(EngineEnds, RequestsThatAreDroppedAndNoOthers) {
  Engine engine;
  const auto kept = transfer();
  engine.begin(kept);
  for (int turn = 0; turn < 200; ++turn) {
    const auto begun = transfer();
    engine.drop(engine.begin(begun));
    ASSERT_TRUE(has_ended(begun));
  }
  EXPECT_FALSE(kept->is_over());
}

}  // namespace
}  // namespace torch_distinput::http_testing
