// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/side_by_side.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/arena.h"

namespace torch_distinput {
namespace {

using Piece = std::pair<std::int64_t, std::int64_t>;

/// The pieces of a call, in order.
std::vector<Piece> pieces_of(std::int64_t count, std::int64_t least) {
  std::mutex mutex;
  std::vector<Piece> pieces;
  side_by_side(count, least, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    pieces.emplace_back(begin, end);
  });
  std::sort(pieces.begin(), pieces.end());
  return pieces;
}

/// What `call` returns in a task of an arena of three threads.
template <class Call>
auto in_arena(Call call) {
  const auto arena = make_arena(3);
  std::promise<decltype(call())> result;
  arena->submit([&] { result.set_value(call()); });
  return result.get_future().get();
}

TEST(SideBySide, CoversAllItemsOnce) {
  for (const std::int64_t count : {1, 2, 9, 10, 11, 100, 1001}) {
    const auto pieces = in_arena([count] { return pieces_of(count, 5); });
    std::int64_t next = 0;
    for (const auto& [begin, end] : pieces) {
      EXPECT_EQ(begin, next);
      EXPECT_GE(end - begin, std::min<std::int64_t>(count, 5));
      next = end;
    }
    EXPECT_EQ(next, count);
  }
}

TEST(SideBySide, IsOneCallOutsideOfAnArena) {
  EXPECT_EQ(pieces_of(1000, 1), std::vector<Piece>({{0, 1000}}));
}

#ifndef __SANITIZE_THREAD__
TEST(SideBySide, TakesIdleThreadsOfTheArena) {
  // Two pieces, each of which waits for the other.
  const bool met = in_arena([] {
    std::atomic<int> there{0};
    side_by_side(4, 1, [&](std::int64_t begin, std::int64_t end) {
      there += static_cast<int>(end - begin);
      while (there < 4) std::this_thread::yield();
    });
    return true;
  });
  EXPECT_TRUE(met);
}
#endif

}  // namespace
}  // namespace torch_distinput
