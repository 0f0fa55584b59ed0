// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/slow_reads.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

namespace torch_distinput {
namespace {

TEST(SlowReads, AreSeenByTheWatchesOfTheirThread) {
  std::atomic<bool> was_slow{false};
  EXPECT_FALSE(reads_slowly());
  {
    const SlowReadWatch watch(was_slow);
    std::thread([] { note_slow_read(); }).join();
  }
  EXPECT_FALSE(was_slow);
  {
    const SlowReadWatch watch(was_slow);
    EXPECT_FALSE(reads_slowly());
    note_slow_read();
  }
  EXPECT_TRUE(was_slow);
  EXPECT_FALSE(reads_slowly());
}

TEST(SlowReads, AreToldByTheInnermostWatch) {
  std::atomic<bool> outer{true};
  std::atomic<bool> inner{false};
  const SlowReadWatch outer_watch(outer);
  EXPECT_TRUE(reads_slowly());
  {
    const SlowReadWatch inner_watch(inner);
    EXPECT_FALSE(reads_slowly());
  }
  EXPECT_TRUE(reads_slowly());
}

TEST(SlowReads, AreThoseOfADisk) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::tmpfile(), std::fclose);
  const int file = ::fileno(stream.get());
  std::string bytes(1 << 20, 'x');
  ASSERT_EQ(::pwrite(file, bytes.data(), bytes.size(), 0), ::ssize_t{1} << 20);
  const auto is_slow = [&] {
    std::atomic<bool> was_slow{false};
    {
      const SlowReadWatch watch(was_slow);
      EXPECT_EQ(::pread(file, bytes.data(), bytes.size(), 0), ::ssize_t{1} << 20);
    }
    return was_slow.load();
  };
  EXPECT_FALSE(is_slow()) << "it was written a moment ago";
  ::fdatasync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  const ::iovec first{bytes.data(), 4096};
  if (::preadv2(file, &first, 1, 0, RWF_NOWAIT) >= 0)
    GTEST_SKIP() << "the folder for such files is in memory";
  EXPECT_TRUE(is_slow());
}

}  // namespace
}  // namespace torch_distinput
