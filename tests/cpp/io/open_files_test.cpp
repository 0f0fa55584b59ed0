// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/open_files.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "io/cache_files.h"
#include "runtime/forked_child.h"

namespace torch_distinput::files_testing {
namespace {

class OpenCacheFiles : public InCache {
 protected:
  /// Opens file `number` and puts it among those that are open.
  void put(std::uint64_t number) {
    CacheFilePtr file;
    ASSERT_EQ(open(key_, number, file), CacheFile::State::kThere);
    opened_.put(key_, file);
  }
  /// Of files of the cache.
  std::ptrdiff_t descriptors() const {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::count_if(begin(all), end(all), [&](const auto& entry) {
      std::error_code gone;
      const std::string path = std::filesystem::read_symlink(entry.path(), gone).string();
      return path.starts_with(folder_.path("cache/v1/" + key_.folder));
    });
  }
  void SetUp() override {
    for (std::uint64_t number = 0; number < 8; ++number)
      ASSERT_TRUE(keep(key_, object_, number * kFileBlocks));
  }

  OpenFiles opened_{4, 2};
  const std::string object_ = random_text(8 * kFileRange);
  const CacheKey key_ = key_of("object", object_.size());
};

TEST_F(OpenCacheFiles, AreThoseThatWereReadLast) {
  for (const std::uint64_t number : {0, 1, 2, 3}) put(number);
  EXPECT_NE(opened_.get(key_, 0), nullptr);
  put(4);
  EXPECT_EQ(opened_.get(key_, 1), nullptr);
  for (const std::uint64_t number : {0, 2, 3, 4}) EXPECT_EQ(opened_.get(key_, number)->number(), number);
  opened_.remove(key_, 2);
  EXPECT_EQ(opened_.get(key_, 2), nullptr);
  EXPECT_EQ(opened_.get(key_of("object", object_.size(), "\"2\""), 0), nullptr);
}

TEST_F(OpenCacheFiles, AreClosedWhereTheyWereRemoved) {
  for (const std::uint64_t number : {0, 1, 2}) put(number);
  EXPECT_EQ(descriptors(), 3);
  remove_version(root_->number(), key_.folder);
  // Longer than a tick of the clock, in which a file is looked at once.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(opened_.get(key_, 2), nullptr);
  EXPECT_EQ(descriptors(), 2);
  ASSERT_TRUE(keep(key_, object_, 3 * kFileBlocks));
  put(3);  // others of them, which nobody reads
  EXPECT_EQ(descriptors(), 1);
  EXPECT_NE(opened_.get(key_, 3), nullptr);
}

TEST_F(OpenCacheFiles, AreReadByThreadsThatKnowThemUntilTheyAreRemoved) {
  put(0);
  CacheFilePtr file = opened_.get(key_, 0);
  std::string bytes(1'000, '\0');
  const auto reads = [&] { return opened_.read_checked(key_, 0, bytes, 500); };
  EXPECT_FALSE(reads()) << "nobody has read it before";
  ASSERT_EQ(file->read(bytes, 500), CacheFile::State::kThere);
  file.reset();
  EXPECT_TRUE(reads());
  EXPECT_EQ(bytes, object_.substr(500, 1'000));
  EXPECT_FALSE(opened_.read_checked(key_, 1, bytes, kFileRange));
  EXPECT_FALSE(opened_.read_checked(key_of("other", object_.size()), 0, bytes, 500));
  std::thread([&] { EXPECT_TRUE(reads()); }).join();
  EXPECT_TRUE(reads());
  OpenFiles others(4, 2);
  EXPECT_FALSE(others.read_checked(key_, 0, bytes, 500)) << "they are open elsewhere";
  EXPECT_TRUE(reads());
  remove_version(root_->number(), key_.folder);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(reads());
  EXPECT_EQ(descriptors(), 0);
}

TEST_F(OpenCacheFiles, AreClosedByThreadsThatReadOthersWhereTheyWereRemoved) {
  std::string bytes(1'000, '\0');
  const auto reads = [&](std::uint64_t number) {
    const std::uint64_t offset = number * kFileRange;
    EXPECT_EQ(opened_.get(key_, number)->read(bytes, offset), CacheFile::State::kThere);
    return opened_.read_checked(key_, number, bytes, offset);
  };
  for (const std::uint64_t number : {0, 1}) {
    put(number);
    EXPECT_TRUE(reads(number));
  }
  remove_version(root_->number(), key_.folder);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(keep(key_, object_, 3 * kFileBlocks));
  put(3);
  EXPECT_EQ(descriptors(), 3) << "this thread knows the others";
  EXPECT_TRUE(reads(3));
  EXPECT_FALSE(opened_.read_checked(key_, 5, bytes, 5 * kFileRange));
  EXPECT_EQ(descriptors(), 1);
}

TEST_F(OpenCacheFiles, AreKnownToThreadsAnewInForkedChildren) {
  put(0);
  std::string bytes(1'000, '\0');
  ASSERT_EQ(opened_.get(key_, 0)->read(bytes, 500), CacheFile::State::kThere);
  const auto reads = [&] { return opened_.read_checked(key_, 0, bytes, 500); };
  EXPECT_TRUE(reads());
  EXPECT_TRUE(true_in_forked_child([&] { return reads() && bytes == object_.substr(500, 1'000); }));
}

}  // namespace
}  // namespace torch_distinput::files_testing
