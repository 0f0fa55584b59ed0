// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_block.h"

#include <chrono>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "io/cache_files.h"
#include "support/mutations.h"

namespace torch_distinput::files_testing {
namespace {

using BlockState = CacheBlock::State;

class CacheBlocks : public InCache {
 protected:
  /// The bytes of `range`; nullopt where they are damaged.
  static std::optional<std::string> read(const CacheBlock& block, const ByteRange& range) {
    std::string bytes(range.size, '\0');
    return block.read(bytes, range.offset) ? std::optional(bytes) : std::nullopt;
  }
  static ByteRange part_of_range(const ByteRange& range, std::mt19937_64& random) {
    const std::uint64_t begin = random() % range.size;
    return {range.offset + begin, 1 + random() % (range.size - begin)};
  }
};

TEST_F(CacheBlocks, HaveTheBytesOfTheirObjects) {
  std::mt19937_64 random(1);
  for (const std::uint64_t size : {1, 100, 16'384, 16'385, 262'144, 262'145, 600'000}) {
    const std::string object = random_text(size, size);
    const CacheKey key = key_of("object", size);
    for (std::uint64_t number = 0; number * kCacheBlock < size; ++number) {
      CacheBlockPtr block;
      EXPECT_EQ(open(key, number, block), BlockState::kNone);
      ASSERT_TRUE(keep(key, object, number));
      ASSERT_EQ(open(key, number, block), BlockState::kThere);
      EXPECT_EQ(std::filesystem::file_size(path_of(key, number)), block_file_bytes(key, number));
      const ByteRange whole = block_range(number, size);
      EXPECT_EQ((block_file_bytes(key, number) - whole.size) % 64, 0u);
      EXPECT_EQ(read(*block, whole), object.substr(whole.offset, whole.size));
      for (int tries = 0; tries < 50; ++tries) {
        const ByteRange part = part_of_range(whole, random);
        EXPECT_EQ(read(*block, part), object.substr(part.offset, part.size));
      }
    }
  }
}

TEST_F(CacheBlocks, NeverGiveBytesThatAreDamaged) {
  std::mt19937_64 random(2);
  const std::string object = random_text(kCacheBlock + 40'000);
  const CacheKey key = key_of("object", object.size());
  ASSERT_TRUE(keep(key, object, 1));
  const std::string good = contents(path_of(key, 1));
  const ByteRange whole = block_range(1, object.size());
  int found = 0;
  for (int tries = 0; tries < 400; ++tries) {
    const std::string damaged = mutations_testing::mutated(good, random);
    put(path_of(key, 1), damaged);
    CacheBlockPtr block;
    if (open(key, 1, block) != BlockState::kThere) {
      ++found;
      continue;
    }
    const bool is_good = damaged == good;
    EXPECT_EQ(read(*block, whole).has_value(), is_good);
    const ByteRange part = part_of_range(whole, random);
    EXPECT_EQ(read(*block, part).value_or(object.substr(part.offset, part.size)),
              object.substr(part.offset, part.size));
  }
  EXPECT_GT(found, 20);
}

TEST_F(CacheBlocks, FindEachFlippedBit) {
  std::mt19937_64 random(3);
  const std::string object = random_text(50'000);
  const CacheKey key = key_of("object", object.size());
  ASSERT_TRUE(keep(key, object, 0));
  const std::string good = contents(path_of(key, 0));
  for (int tries = 0; tries < 200; ++tries) {
    std::string damaged = good;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    put(path_of(key, 0), damaged);
    CacheBlockPtr block;
    EXPECT_FALSE(open(key, 0, block) == BlockState::kThere && read(*block, {0, object.size()}));
  }
}

TEST_F(CacheBlocks, FindWhatHasChangedSinceTheyWereRead) {
  std::mt19937_64 random(5);
  const std::string object = random_text(kCacheBlock);
  const CacheKey key = key_of("object", object.size());
  const ByteRange whole{0, object.size()};
  for (int tries = 0; tries < 20; ++tries) {
    ASSERT_TRUE(keep(key, object, 0));
    CacheBlockPtr block;
    ASSERT_EQ(open(key, 0, block), BlockState::kThere);
    ASSERT_EQ(read(*block, part_of_range(whole, random)).has_value(), true);
    ASSERT_EQ(read(*block, whole), object);
    // Longer than a tick of the clock that files have their times from.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::uint64_t at = random() % object.size();
    const char other = static_cast<char>(object[at] ^ 1);
    const int file = ::open(path_of(key, 0).c_str(), O_WRONLY);
    const std::uint64_t head = block_file_bytes(key, 0) - object.size();
    ASSERT_EQ(::pwrite(file, &other, 1, static_cast<::off_t>(head + at)), 1);
    ::close(file);
    EXPECT_EQ(read(*block, whole), std::nullopt);
    EXPECT_EQ(read(*block, {at, 1}), std::nullopt);
    remove_file(*root_, block_path(key, 0));
  }
}

TEST_F(CacheBlocks, AreOfOneVersionAndPlace) {
  const std::string object = random_text(3 * kCacheBlock);
  const CacheKey key = key_of("object", object.size());
  const CacheKey other = key_of("object", object.size(), "\"2\"");
  ASSERT_TRUE(keep(key, object, 0));
  CacheBlockPtr block;
  EXPECT_EQ(open(other, 0, block), BlockState::kNone);
  EXPECT_EQ(open(key_of("object", object.size() - 1), 0, block), BlockState::kNone);
  EXPECT_EQ(url_part(key.folder), url_part(other.folder));
  EXPECT_NE(url_part(key.folder), url_part(key_of("another", object.size()).folder));
  // Files that somebody has moved.
  ASSERT_TRUE(keep(other, object, 1));
  for (const std::string& to : {path_of(key, 2), path_of(other, 1), path_of(other, 2)})
    std::filesystem::copy_file(path_of(key, 0), to, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(open(key, 2, block), BlockState::kDamaged);
  EXPECT_EQ(open(other, 1, block), BlockState::kDamaged);
  EXPECT_EQ(open(other, 2, block), BlockState::kDamaged);
}

TEST_F(CacheBlocks, AreRegularFilesOfThisUser) {
  const std::string object = random_text(1'000);
  const CacheKey key = key_of("object", object.size());
  ASSERT_TRUE(keep(key, object, 0));
  const std::string path = path_of(key, 0);
  CacheBlockPtr block;
  std::filesystem::permissions(path, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_EQ(open(key, 0, block), BlockState::kDamaged);
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  ASSERT_EQ(open(key, 0, block), BlockState::kThere);
  std::filesystem::rename(path, folder_.path("elsewhere"));
  std::filesystem::create_symlink(folder_.path("elsewhere"), path);
  EXPECT_EQ(open(key, 0, block), BlockState::kDamaged);
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(open(key, 0, block), BlockState::kDamaged);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_EQ(open(key, 0, block), BlockState::kDamaged);
}

TEST_F(CacheBlocks, CanBeReadAfterTheyWereRemoved) {
  const std::string object = random_text(100'000);
  const CacheKey key = key_of("object", object.size());
  ASSERT_TRUE(keep(key, object, 0));
  CacheBlockPtr block;
  ASSERT_EQ(open(key, 0, block), BlockState::kThere);
  remove_version(root_->number(), key.folder);
  EXPECT_EQ(files().size(), 0u);
  EXPECT_EQ(read(*block, {10, 99'990}), object.substr(10));
}

TEST_F(CacheBlocks, TellTheirOwners) {
  const std::string object = random_text(100);
  const CacheKey key = cache_key("https://me:secret@host/object?token=secret", {object.size(), "\"1\""});
  ASSERT_TRUE(keep(key, object, 0));
  const auto owner = owner_of(root_->number(), key.folder);
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->url, "https://host/object");
  EXPECT_EQ(owner->tag, "\"1\"");
  EXPECT_EQ(owner->size, 100u);
  std::mt19937_64 random(4);
  const std::string good = contents(path_of(key, 0));
  for (int tries = 0; tries < 400; ++tries) {
    put(path_of(key, 0), mutations_testing::mutated(good.substr(0, 300), random));
    owner_of(root_->number(), key.folder);
  }
}

}  // namespace
}  // namespace torch_distinput::files_testing
