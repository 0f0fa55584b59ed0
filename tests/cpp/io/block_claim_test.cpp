// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/block_claim.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <functional>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/cache_files.h"

namespace torch_distinput::files_testing {
namespace {

using ClaimState = BlockClaim::State;

class BlockClaims : public InCache {
 protected:
  /// Runs `body` in a child until it says so and waits to be killed, and kills it.
  static void kill_after(const std::function<void()>& body) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const ::pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      body();
      const char done = 1;
      if (::write(pipe[1], &done, 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    char done = 0;
    ASSERT_EQ(::read(pipe[0], &done, 1), 1);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    ::close(pipe[0]);
    ::close(pipe[1]);
  }

  /// Writes to the place of a block.
  void overwrite(std::uint64_t block, const std::string& bytes) const {
    std::fstream file(path_of(key_, 0), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(place_in_file(block, object_.size()).offset));
    file << bytes;
  }

  const std::string object_ = random_text(kCacheBlock + 1'000);
  const CacheKey key_ = key_of("object", object_.size());
};

TEST_F(BlockClaims, AreOfOneAtATime) {
  std::optional<BlockClaim> first;
  std::optional<BlockClaim> second;
  EXPECT_EQ(take(key_, 0, first), ClaimState::kMine);
  EXPECT_EQ(take(key_, 0, second), ClaimState::kBusy);
  EXPECT_EQ(take(key_, 1, second), ClaimState::kMine);
  first.reset();
  second.reset();
  EXPECT_EQ(files().size(), 0u);
  EXPECT_EQ(used_room(*root_), 0u);
  EXPECT_EQ(take(key_, 0, second), ClaimState::kMine);
  ASSERT_TRUE(second->keep(key_, part_of(object_, 0)));
  EXPECT_EQ(take(key_, 0, first), ClaimState::kThere);
  second.reset();
  EXPECT_EQ(take(key_, 0, first), ClaimState::kThere);
  EXPECT_EQ(files(), std::vector{path_of(key_, 0)});
  EXPECT_EQ(used_room(*root_), bytes_of_files());
}

TEST_F(BlockClaims, EndWithTheProcessInEachOfItsStates) {
  const auto claimed = [&] {
    static std::optional<BlockClaim> claim;
    take(key_, 0, claim);
  };
  const auto writing = [&] {
    claimed();
    overwrite(0, object_.substr(0, 1'000));
  };
  const auto whole = [&] {
    claimed();
    overwrite(0, part_of(object_, 0));
  };
  const auto head_torn = [&] {
    whole();
    const int file = ::open(path_of(key_, 0).c_str(), O_RDWR);
    write_block_head(file, key_, 0, part_of(object_, 0));
    ::pwrite(file, "torn", 4, 2048 + 40);
  };
  for (const std::function<void()>& state :
       {std::function<void()>(claimed), std::function<void()>(writing), std::function<void()>(whole),
        std::function<void()>(head_torn)}) {
    kill_after(state);
    EXPECT_EQ(files().size(), 1u);
    EXPECT_FALSE(has(key_, object_, 0));
    ASSERT_TRUE(keep(key_, object_, 1));
    ASSERT_TRUE(keep(key_, object_, 0));
    EXPECT_TRUE(has(key_, object_, 0) && has(key_, object_, 1));
    EXPECT_EQ(used_room(*root_), bytes_of_files());
    EXPECT_EQ(files(), std::vector{path_of(key_, 0)});
    remove_file(*root_, file_path(key_, 0));
  }
}

TEST_F(BlockClaims, GiveTheirRoomBack) {
  ASSERT_TRUE(keep(key_, object_, 1));
  const std::uint64_t before = used_room(*root_);
  std::optional<BlockClaim> claim;
  ASSERT_EQ(take(key_, 0, claim), ClaimState::kMine);
  EXPECT_EQ(used_room(*root_), before + kCacheBlock);
  EXPECT_EQ(used_room(*root_), bytes_of_files());
  claim.reset();
  EXPECT_EQ(used_room(*root_), before);
  EXPECT_EQ(used_room(*root_), bytes_of_files());
  EXPECT_TRUE(has(key_, object_, 1));
}

TEST_F(BlockClaims, KeepTheBytesOfABlockThatIsWrittenAnew) {
  ASSERT_TRUE(keep(key_, object_, 0) && keep(key_, object_, 1));
  CacheFilePtr file;
  ASSERT_EQ(open(key_, 0, file), CacheFile::State::kThere);
  std::string bytes(1'000, '\0');
  ASSERT_EQ(file->read(bytes, 0), CacheFile::State::kThere);
  remove_block(*root_, key_, 0);
  EXPECT_FALSE(has(key_, object_, 0));
  EXPECT_TRUE(has(key_, object_, 1));
  std::optional<BlockClaim> claim;
  ASSERT_EQ(take(key_, 0, claim), ClaimState::kMine);
  remove_block(*root_, key_, 0);  // not while somebody writes it
  claim.reset();
  // Who reads it may not have seen yet that it is not there.
  EXPECT_EQ(file->read(bytes, 0), CacheFile::State::kThere);
  EXPECT_EQ(bytes, object_.substr(0, 1'000));
  EXPECT_EQ(used_room(*root_), bytes_of_files());
  ASSERT_TRUE(keep(key_, object_, 0));
  EXPECT_TRUE(has(key_, object_, 0));
}

TEST_F(BlockClaims, TakeThePlaceOfFilesThatAreDamaged) {
  for (const std::string& damaged : {std::string(), std::string(5'000, 'x'), object_ + object_}) {
    ASSERT_TRUE(keep(key_, object_, 0));
    put(path_of(key_, 0), damaged);
    ASSERT_TRUE(keep(key_, object_, 1)) << damaged.size();
    EXPECT_TRUE(has(key_, object_, 1));
    EXPECT_FALSE(has(key_, object_, 0));
    trim_room(*root_, 0);
    EXPECT_EQ(files().size(), 0u);
  }
}

TEST_F(BlockClaims, AreFreeWhereAForkedChildLivesOn) {
  std::optional<BlockClaim> claim;
  ASSERT_EQ(take(key_, 0, claim), ClaimState::kMine);
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    while (true) ::pause();
  }
  claim.reset();
  EXPECT_EQ(take(key_, 0, claim), ClaimState::kMine);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(BlockClaims, AreTakenByOneOfManyProcesses) {
  constexpr int kProcesses = 6;
  constexpr int kBlocks = 40;
  const std::string object = random_text(kBlocks * kCacheBlock);
  const CacheKey key = key_of("many", object.size());
  std::array<int, 2> counts{};
  ASSERT_EQ(::pipe(counts.data()), 0);
  std::vector<::pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::alarm(50);
    const CacheRootPtr root = CacheRoot::open(folder_.path("cache"), false);
    for (int block = 0; block < kBlocks;) {
      std::optional<BlockClaim> claim;
      const ClaimState state = BlockClaim::take(*root, kNoLimits, key, block, claim);
      if (state == ClaimState::kMine) {
        const char one = static_cast<char>(block);
        if (!claim->keep(key, part_of(object, block)) || ::write(counts[1], &one, 1) != 1) ::_exit(1);
      }
      if (state != ClaimState::kBusy) ++block;
    }
    ::_exit(0);
  }
  ::close(counts[1]);
  std::string kept;
  char block = 0;
  while (::read(counts[0], &block, 1) == 1) kept.push_back(block);
  ::close(counts[0]);
  for (const ::pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(kept.size(), std::size_t{kBlocks});
  EXPECT_EQ(std::unique(kept.begin(), kept.end()), kept.end());
  EXPECT_EQ(files().size(), 3u);
  for (std::uint64_t number = 0; number < kBlocks; ++number) EXPECT_TRUE(has(key, object, number));
  EXPECT_EQ(used_room(*root_), bytes_of_files());
}

TEST_F(BlockClaims, KeepNothingWhereTheirFileWasTaken) {
  std::optional<BlockClaim> claim;
  ASSERT_EQ(take(key_, 0, claim), ClaimState::kMine);
  std::filesystem::remove(path_of(key_, 0));
  EXPECT_TRUE(claim->keep(key_, part_of(object_, 0)));
  claim.reset();
  EXPECT_EQ(files().size(), 0u);
  std::filesystem::remove_all(folder_.path("cache"));
  EXPECT_EQ(take(key_, 0, claim), ClaimState::kFailed);
}

TEST_F(BlockClaims, DoNotFollowLinks) {
  ASSERT_TRUE(keep(key_, object_, 1));
  std::filesystem::remove(path_of(key_, 0));
  std::ofstream(folder_.path("mine")) << "precious";
  std::filesystem::create_symlink(folder_.path("mine"), path_of(key_, 0));
  ASSERT_TRUE(keep(key_, object_, 1));
  EXPECT_EQ(contents(folder_.path("mine")), "precious");
  EXPECT_FALSE(std::filesystem::is_symlink(path_of(key_, 0)));
}

TEST_F(BlockClaims, LeaveWhatIsNoFileAlone) {
  ASSERT_TRUE(keep(key_, object_, 1));
  std::filesystem::remove(path_of(key_, 0));
  std::filesystem::create_directory(path_of(key_, 0));
  std::optional<BlockClaim> claim;
  EXPECT_EQ(take(key_, 0, claim), ClaimState::kThere);
  EXPECT_TRUE(std::filesystem::is_directory(path_of(key_, 0)));
}

}  // namespace
}  // namespace torch_distinput::files_testing
