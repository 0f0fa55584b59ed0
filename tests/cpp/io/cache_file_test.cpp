// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_file.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/slow_reads.h"
#include "io/cache_files.h"
#include "support/mutations.h"

namespace torch_distinput::files_testing {
namespace {

using FileState = CacheFile::State;

class CacheFiles : public InCache {
 protected:
  /// The bytes of `range`, which are of one block; nullopt where they are not there or damaged.
  static std::optional<std::string> read(const CacheFile& file, const ByteRange& range) {
    std::string bytes(range.size, '\0');
    return file.read(bytes, range.offset) == FileState::kThere ? std::optional(bytes) : std::nullopt;
  }
  static ByteRange part_of_range(const ByteRange& range, std::mt19937_64& random) {
    const std::uint64_t begin = random() % range.size;
    return {range.offset + begin, 1 + random() % (range.size - begin)};
  }
  /// Writes a byte of an object that is not right.
  void damage(const CacheKey& key, const std::string& object, std::uint64_t at) const {
    const std::uint64_t block = at / kCacheBlock;
    const char other = static_cast<char>(object[at] ^ 1);
    const int file = ::open(path_of(key, file_of(block)).c_str(), O_WRONLY);
    const std::uint64_t place = place_in_file(block, object.size()).offset + at % kCacheBlock;
    ASSERT_EQ(::pwrite(file, &other, 1, static_cast<::off_t>(place)), 1);
    ::close(file);
  }
};

TEST_F(CacheFiles, HaveTheBytesOfTheirObjects) {
  std::mt19937_64 random(1);
  for (const std::uint64_t size : {1, 100, 16'384, 16'385, 262'144, 262'145, 600'000, 4'194'304, 5'000'000}) {
    const std::string object = random_text(size, size);
    const CacheKey key = key_of("object", size);
    for (std::uint64_t block = 0; block * kCacheBlock < size; ++block) {
      CacheFilePtr file;
      const bool is_first = block % kFileBlocks == 0;
      EXPECT_EQ(open(key, file_of(block), file), is_first ? FileState::kNone : FileState::kThere);
      const ByteRange whole = block_range(block, size);
      const CacheFilePtr opened_before = file;
      ASSERT_TRUE(keep(key, object, block));
      ASSERT_EQ(open(key, file_of(block), file), FileState::kThere);
      if (opened_before != nullptr) file = opened_before;
      EXPECT_TRUE(file->has(block));
      EXPECT_EQ(std::filesystem::file_size(path_of(key, file_of(block))), file_bytes(key, file_of(block)));
      for (int tries = 0; tries < 50; ++tries) {
        const ByteRange part = part_of_range(whole, random);
        ASSERT_EQ(read(*file, part), object.substr(part.offset, part.size));
      }
      EXPECT_EQ(read(*file, whole), object.substr(whole.offset, whole.size));
    }
  }
}

TEST_F(CacheFiles, NeverGiveBytesThatAreDamaged) {
  std::mt19937_64 random(2);
  const std::string object = random_text(kFileRange + kCacheBlock + 40'000);
  const CacheKey key = key_of("object", object.size());
  for (const std::uint64_t block : {16, 17}) ASSERT_TRUE(keep(key, object, block));
  const std::string good = contents(path_of(key, 1));
  int unopened = 0;
  int damaged_blocks = 0;
  for (int tries = 0; tries < 400; ++tries) {
    put(path_of(key, 1), mutations_testing::mutated(good, random));
    CacheFilePtr file;
    if (open(key, 1, file) != FileState::kThere) {
      ++unopened;
      continue;
    }
    for (const std::uint64_t block : {16, 17}) {
      const ByteRange whole = block_range(block, object.size());
      const ByteRange part = part_of_range(whole, random);
      EXPECT_EQ(read(*file, part).value_or(object.substr(part.offset, part.size)),
                object.substr(part.offset, part.size));
      const auto found = read(*file, whole);
      damaged_blocks += !found.has_value();
      EXPECT_EQ(found.value_or(part_of(object, block)), part_of(object, block));
    }
  }
  EXPECT_GT(unopened, 20);
  EXPECT_GT(damaged_blocks, 20);
}

TEST_F(CacheFiles, FindEachFlippedBit) {
  std::mt19937_64 random(3);
  const std::string object = random_text(50'000);
  const CacheKey key = key_of("object", object.size());
  ASSERT_TRUE(keep(key, object, 0));
  const std::string good = contents(path_of(key, 0));
  const std::uint64_t first = place_in_file(0, object.size()).offset;
  for (int tries = 0; tries < 400; ++tries) {
    std::string damaged = good;
    // Heads of blocks that are not there, and the hole, tell nothing.
    const std::uint64_t at = random() % 3 == 0 ? random() % 100 : first + random() % object.size();
    damaged[at] ^= static_cast<char>(1 << random() % 8);
    put(path_of(key, 0), damaged);
    EXPECT_FALSE(has(key, object, 0)) << at;
  }
}

TEST_F(CacheFiles, FindWhatHasChangedSinceTheyWereRead) {
  std::mt19937_64 random(5);
  const std::string object = random_text(2 * kCacheBlock);
  const CacheKey key = key_of("object", object.size());
  for (int tries = 0; tries < 20; ++tries) {
    ASSERT_TRUE(keep(key, object, 0) && keep(key, object, 1));
    CacheFilePtr file;
    ASSERT_EQ(open(key, 0, file), FileState::kThere);
    const std::uint64_t block = random() % 2;
    const ByteRange whole = block_range(block, object.size());
    ASSERT_EQ(read(*file, part_of_range(whole, random)).has_value(), true);
    ASSERT_EQ(read(*file, whole), part_of(object, block));
    // Longer than a tick of the clock that files have their times from.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::uint64_t at = whole.offset + random() % whole.size;
    damage(key, object, at);
    EXPECT_EQ(read(*file, whole), std::nullopt);
    EXPECT_EQ(read(*file, {at, 1}), std::nullopt);
    const ByteRange other = block_range(1 - block, object.size());
    EXPECT_EQ(read(*file, other), part_of(object, 1 - block));
    remove_file(*root_, file_path(key, 0));
  }
}

TEST_F(CacheFiles, AreReadWithOneCallWhereAllWasReadBefore) {
  std::mt19937_64 random(6);
  const std::string object = random_text(kFileRange + 2 * kCacheBlock + 1'000);
  const CacheKey key = key_of("object", object.size());
  for (std::uint64_t block = 0; block * kCacheBlock < object.size(); ++block)
    ASSERT_TRUE(keep(key, object, block));
  for (const std::uint64_t number : {0, 1}) {
    CacheFilePtr file;
    ASSERT_EQ(open(key, number, file), FileState::kThere);
    const ByteRange all = file_range(number, object.size());
    std::vector<bool> were_read((all.size + kCachePage - 1) / kCachePage);
    const auto pages = [&](const ByteRange& range) {
      const auto place = [&](std::uint64_t at) {
        return were_read.begin() + static_cast<std::ptrdiff_t>((at - all.offset) / kCachePage);
      };
      return std::pair(place(range.offset), place(range.end() - 1) + 1);
    };
    for (int tries = 0; tries < 300; ++tries) {
      const ByteRange part = part_of_range(all, random);
      const ByteRange range{part.offset, std::min<std::uint64_t>(part.size, 1 + random() % 900'000)};
      std::string bytes(range.size, '\0');
      const auto [first, end] = pages(range);
      ASSERT_EQ(file->read_checked(bytes, range.offset),
                std::all_of(first, end, [](bool read) { return read; }));
      if (file->read_checked(bytes, range.offset)) {
        ASSERT_EQ(bytes, object.substr(range.offset, range.size));
      }
      const std::uint64_t block = range.offset / kCacheBlock;
      const ByteRange whole = block_range(block, object.size());
      const ByteRange read_now{range.offset, std::min(range.size, whole.end() - range.offset)};
      ASSERT_TRUE(read(*file, read_now));
      const auto [first_now, end_now] = pages(read_now);
      std::fill(first_now, end_now, true);
    }
    std::string bytes(all.size, '\0');
    for (std::uint64_t block = all.offset / kCacheBlock; block * kCacheBlock < all.end(); ++block)
      ASSERT_TRUE(read(*file, block_range(block, object.size())));
    for (const bool slow : {false, true}) {
      std::atomic<bool> is_slow{slow};
      const SlowReadWatch watch(is_slow);
      ASSERT_TRUE(file->read_checked(bytes, all.offset));
      EXPECT_EQ(bytes, object.substr(all.offset, all.size));
      std::fill(bytes.begin(), bytes.end(), '\0');
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    damage(key, object, all.offset + random() % all.size);
    EXPECT_FALSE(file->read_checked(bytes, all.offset));
  }
}

TEST_F(CacheFiles, AreOfOneVersionAndPlace) {
  const std::string object = random_text(3 * kFileRange);
  const CacheKey key = key_of("object", object.size());
  const CacheKey other = key_of("object", object.size(), "\"2\"");
  ASSERT_TRUE(keep(key, object, 0));
  CacheFilePtr file;
  EXPECT_EQ(open(other, 0, file), FileState::kNone);
  EXPECT_EQ(open(key_of("object", object.size() - 1), 0, file), FileState::kNone);
  EXPECT_EQ(url_part(key.folder), url_part(other.folder));
  EXPECT_NE(url_part(key.folder), url_part(key_of("another", object.size()).folder));
  // Files that somebody has moved.
  ASSERT_TRUE(keep(other, object, 16));
  for (const std::string& to : {path_of(key, 2), path_of(other, 1), path_of(other, 2)})
    std::filesystem::copy_file(path_of(key, 0), to, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(open(key, 2, file), FileState::kDamaged);
  EXPECT_EQ(open(other, 1, file), FileState::kDamaged);
  EXPECT_EQ(open(other, 2, file), FileState::kDamaged);
}

TEST_F(CacheFiles, HaveHeadsOfBlocksThatHoldForOnePlace) {
  const std::string object = random_text(2 * kCacheBlock);
  const CacheKey key = key_of("object", object.size());
  ASSERT_TRUE(keep(key, object, 0));
  std::string moved = contents(path_of(key, 0));
  const std::uint64_t heads = 2048;
  const std::uint64_t step = 128;
  moved.replace(heads + step, step, moved, heads, step);
  moved.replace(place_in_file(1, object.size()).offset, kCacheBlock, part_of(object, 0));
  put(path_of(key, 0), moved);
  EXPECT_TRUE(has(key, object, 0));
  CacheFilePtr file;
  ASSERT_EQ(open(key, 0, file), FileState::kThere);
  EXPECT_FALSE(file->has(1));
}

TEST_F(CacheFiles, AreRegularFilesOfThisUser) {
  const std::string object = random_text(1'000);
  const CacheKey key = key_of("object", object.size());
  ASSERT_TRUE(keep(key, object, 0));
  const std::string path = path_of(key, 0);
  CacheFilePtr file;
  std::filesystem::permissions(path, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_EQ(open(key, 0, file), FileState::kDamaged);
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  ASSERT_EQ(open(key, 0, file), FileState::kThere);
  std::filesystem::rename(path, folder_.path("elsewhere"));
  std::filesystem::create_symlink(folder_.path("elsewhere"), path);
  EXPECT_EQ(open(key, 0, file), FileState::kDamaged);
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(open(key, 0, file), FileState::kDamaged);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_EQ(open(key, 0, file), FileState::kDamaged);
}

TEST_F(CacheFiles, CanBeReadAfterTheyWereRemoved) {
  const std::string object = random_text(100'000);
  const CacheKey key = key_of("object", object.size());
  ASSERT_TRUE(keep(key, object, 0));
  CacheFilePtr file;
  ASSERT_EQ(open(key, 0, file), FileState::kThere);
  remove_version(root_->number(), key.folder);
  EXPECT_EQ(files().size(), 0u);
  EXPECT_EQ(read(*file, {10, 99'990}), object.substr(10));
  EXPECT_TRUE(file->was_removed());
}

TEST_F(CacheFiles, TellTheirOwners) {
  const std::string object = random_text(100);
  const CacheKey key = cache_key("https://me:secret@host/object?token=secret", {object.size(), "\"1\""});
  ASSERT_TRUE(keep(key, object, 0));
  const auto owner = owner_of(root_->number(), key.folder);
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->key.url, "https://host/object");
  EXPECT_EQ(owner->key.tag, "\"1\"");
  EXPECT_EQ(owner->key.size, 100u);
  std::mt19937_64 random(4);
  const std::string good = contents(path_of(key, 0));
  for (int tries = 0; tries < 400; ++tries) {
    put(path_of(key, 0), mutations_testing::mutated(good.substr(0, 300), random) + good.substr(300));
    owner_of(root_->number(), key.folder);
    remove_left(root_->number(), key.folder);
  }
}

}  // namespace
}  // namespace torch_distinput::files_testing
