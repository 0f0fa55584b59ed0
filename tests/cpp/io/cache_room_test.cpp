// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_room.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <functional>
#include <thread>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/cache_files.h"

namespace torch_distinput::files_testing {
namespace {

constexpr std::uint64_t kFile = kCacheBlock + 4096;

/// From now on, this process is killed as soon as it asks the system to change the room of a file.
void be_killed_at_fallocate() {
  std::array<::sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(::seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  ::sock_fprog program{static_cast<unsigned short>(filter.size()),
                       filter.data()};  // NOLINT(google-runtime-int)
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/// Whether a forked child that does `work` is killed at that.
bool is_killed_at_fallocate(const std::function<void()>& work) {
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    work();
    ::_exit(0);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

class CacheRoom : public InCache {
 protected:
  /// As if it was used so long ago.
  void age(const CacheKey& key, std::int64_t seconds) const {
    const std::time_t then = std::time(nullptr) - seconds;
    const std::array<::timespec, 2> times{{{then, 0}, {then, 0}}};
    ASSERT_EQ(::utimensat(root_->number(), key.folder.c_str(), times.data(), 0), 0);
  }
  CacheKey keep_object(const std::string& name, std::int64_t used, const std::string& tag = "\"1\"") {
    const CacheKey key = key_of(name, object_.size(), tag);
    EXPECT_TRUE(keep(key, object_, 0));
    age(key, used);
    return key;
  }
  bool is_there(const CacheKey& key) const { return std::filesystem::exists(path_of(key, 0)); }

  const std::string object_ = random_text(kCacheBlock);
};

TEST_F(CacheRoom, HasLimitsThatHold) {
  const CacheLimits limits{.max_bytes = 5 * kFile + 100, .least_free = 0};
  int kept = 0;
  for (int number = 0; number < 12; ++number)
    kept += keep(key_of(std::to_string(number), object_.size()), object_, 0, limits);
  EXPECT_EQ(kept, 5);
  EXPECT_EQ(files().size(), 5u);
  EXPECT_LE(bytes_of_files(), limits.max_bytes);
  EXPECT_EQ(used_room(*root_), bytes_of_files());
}

TEST_F(CacheRoom, LeavesWhatMustStayFree) {
  struct ::statvfs system;
  ASSERT_EQ(::statvfs(folder_.path("").c_str(), &system), 0);
  const CacheLimits limits{.least_free = std::uint64_t{system.f_blocks} * system.f_frsize};
  EXPECT_FALSE(keep(key_of("object", object_.size()), object_, 0, limits));
  EXPECT_EQ(files().size(), 0u);
}

TEST_F(CacheRoom, LimitsHoldWhileProcessesWriteAndAreKilled) {
  const CacheLimits limits{.max_bytes = 20 * kFile, .least_free = 0};
  std::vector<::pid_t> children;
  for (int process = 0; process < 4; ++process) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::alarm(30);
    const CacheRootPtr root = CacheRoot::open(folder_.path("cache"), false);
    std::mt19937_64 random(static_cast<std::uint64_t>(process));
    for (int tries = 0; tries < 60; ++tries) {
      std::optional<BlockClaim> claim;
      const CacheKey key = key_of(std::to_string(random() % 50), object_.size());
      if (BlockClaim::take(*root, limits, key, 0, claim) != BlockClaim::State::kMine) continue;
      if (random() % 3 == 0) continue;
      claim->keep(key, object_);
      if (random() % 8 == 0) remove_file(*root, file_path(key, 0));
      if (process == 0 && tries == 40) {
        claim.reset();
        BlockClaim::take(*root, limits, key_of("killed", object_.size()), 0, claim);
        ::kill(::getpid(), SIGKILL);
      }
    }
    ::_exit(0);
  }
  std::size_t running = children.size();
  while (running > 0) {
    {
      const Descriptor usage = root_->open_file("usage");  // nobody makes or removes files meanwhile
      ASSERT_TRUE(root_->lock_usage(usage.number()));
      EXPECT_LE(bytes_of_files(), limits.max_bytes);
    }
    while (::waitpid(-1, nullptr, WNOHANG) > 0) --running;
  }
  EXPECT_GT(files().size(), 10u);
  EXPECT_GE(used_room(*root_), bytes_of_files());
  EXPECT_LE(trim_room(*root_, ~std::uint64_t{0}), limits.max_bytes);
  EXPECT_EQ(used_room(*root_), bytes_of_files());
}

TEST_F(CacheRoom, IsTakenFromKilledProcesses) {
  const std::string object = random_text(3 * kCacheBlock);
  const CacheKey key = key_of("object", object.size());
  ASSERT_TRUE(keep(key, object, 1));
  const std::uint64_t before = used_room(*root_);
  const ::pid_t child = ::fork();
  if (child == 0) {
    std::optional<BlockClaim> first;
    std::optional<BlockClaim> other;
    take(key, 0, first);
    take(key_of("other", object.size()), 0, other);
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(used_room(*root_), before + 2 * kCacheBlock + 4096);
  std::optional<BlockClaim> claim;
  ASSERT_EQ(take(key, 2, claim), BlockClaim::State::kMine);
  // Those who read a file may not have seen for a moment that it has changed.
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_EQ(trim_room(*root_, ~std::uint64_t{0}), before + kCacheBlock) << "one is about to be written";
  EXPECT_EQ(used_room(*root_), bytes_of_files());
  EXPECT_TRUE(claim->keep(key, part_of(object, 2)));
  EXPECT_TRUE(has(key, object, 1) && has(key, object, 2));
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(CacheRoom, IsNotCountedTooLowWhereAProcessIsKilledBetweenCountingAndChangingIt) {
  const std::string object = random_text(3 * kCacheBlock);
  const CacheKey key = key_of("object", object.size());
  ASSERT_TRUE(keep(key, object, 1));
  const auto take_at = [&](const CacheKey& of, std::uint64_t block) {
    std::optional<BlockClaim> claim;
    be_killed_at_fallocate();
    take(of, block, claim);
  };
  const std::array<std::function<void()>, 3> works{
      [&] { take_at(key_of("new", object.size()), 0); },  // before a file has room for its head
      [&] { take_at(key, 0); },                           // before a block has room
      [&] {
        std::optional<BlockClaim> claim;
        take(key, 0, claim);
        be_killed_at_fallocate();
        claim.reset();  // before its room is given back
      },
  };
  for (std::size_t i = 0; i < works.size(); ++i) {
    const std::uint64_t before = used_room(*root_);
    ASSERT_TRUE(is_killed_at_fallocate(works.at(i))) << i;
    EXPECT_GT(used_room(*root_), before) << i;
    EXPECT_GE(used_room(*root_), bytes_of_files()) << i;
    for (const CacheKey& of : {key, key_of("new", object.size())}) {
      std::optional<BlockClaim> claim;
      EXPECT_EQ(take(of, 0, claim), BlockClaim::State::kMine) << i;
    }
    trim_room(*root_, ~std::uint64_t{0});
    EXPECT_EQ(used_room(*root_), bytes_of_files()) << i;
    EXPECT_TRUE(has(key, object, 1)) << i;
  }
}

TEST_F(CacheRoom, IsCountedAnewWhereTheCountIsDamaged) {
  keep_object("a", 0);
  keep_object("b", 0);
  for (const std::string& damaged :
       {std::string(), std::string("x"), std::string(32, '\0'), std::string(32, 'x')}) {
    put(folder_.path("cache/v1/usage"), damaged);
    EXPECT_EQ(used_room(*root_), 2 * kFile);
  }
}

TEST_F(CacheRoom, IsMadeByWhatIsLeastWanted) {
  constexpr std::int64_t kDay = 24 * 3600;
  const CacheKey replaced = keep_object("x", 100, "\"1\"");
  const CacheKey current = keep_object("x", 50, "\"2\"");
  const CacheKey oldest = keep_object("y", 3 * kDay);
  const CacheKey old = keep_object("z", 2 * kDay);
  const CacheKey used = keep_object("w", kDay / 2);
  const CacheLimits limits{.max_bytes = 5 * kFile, .least_free = 0};
  const auto sweep = [&] {
    std::filesystem::remove(folder_.path("cache/v1/usage"));  // the last time was long ago
    make_room(*root_, limits, kFile);
  };
  sweep();
  EXPECT_FALSE(is_there(replaced));
  EXPECT_TRUE(is_there(current) && is_there(oldest) && is_there(old) && is_there(used));
  sweep();
  EXPECT_TRUE(is_there(oldest));  // there is room
  keep_object("v", 0);
  sweep();
  EXPECT_FALSE(is_there(oldest));
  keep_object("u", 0);
  sweep();
  EXPECT_FALSE(is_there(old));
  keep_object("t", 0);
  sweep();
  EXPECT_TRUE(is_there(current) && is_there(used));  // what was there first stays
}

TEST_F(CacheRoom, IsTrimmedFromWhatWasUsedFirst) {
  const CacheKey a = keep_object("a", 30);
  const CacheKey b = keep_object("b", 20);
  const CacheKey c = keep_object("c", 10);
  EXPECT_EQ(trim_room(*root_, 3 * kFile), 3 * kFile);
  EXPECT_EQ(trim_room(*root_, 3 * kFile - 1), 2 * kFile);
  EXPECT_TRUE(!is_there(a) && is_there(b) && is_there(c));
  std::optional<BlockClaim> claim;
  ASSERT_EQ(take(key_of("d", object_.size()), 0, claim), BlockClaim::State::kMine);
  EXPECT_EQ(trim_room(*root_, 0), kFile);  // it is about to be written
  EXPECT_TRUE(claim->keep(key_of("d", object_.size()), object_));
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(CacheRoom, IsNotTakenInFoldersOfOthers) {
  const auto problem = [&](const std::string& folder) -> std::string {
    try {
      return CacheRoot::open(folder, /*make=*/true)->note();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(problem(folder_.path("new/folders")), "");
  EXPECT_TRUE(problem("/dev/null/cache").find("Not a directory") != std::string::npos);
  std::filesystem::create_directories(folder_.path("open/v1"));
  std::filesystem::permissions(folder_.path("open/v1"), std::filesystem::perms::all);
  EXPECT_TRUE(problem(folder_.path("open")).find("others than its user") != std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder_.path("open/v1-" + std::to_string(::geteuid()) + "/usage")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("open/v1/usage")));
  std::filesystem::create_directories(folder_.path("linked"));
  std::filesystem::create_directory_symlink(folder_.path("cache/v1"), folder_.path("linked/v1"));
  EXPECT_NE(problem(folder_.path("linked")), "");
  EXPECT_TRUE(std::filesystem::exists(folder_.path("linked/v1-" + std::to_string(::geteuid()) + "/usage")));
}

}  // namespace
}  // namespace torch_distinput::files_testing
