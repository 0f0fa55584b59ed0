// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cached_object.h"

#include <atomic>
#include <fstream>
#include <thread>

#include <fcntl.h>

#include "io/cache_files.h"
#include "remote/announced_requests.h"
#include "remote/over_http.h"
#include "remote/read_counts.h"
#include "runtime/forked_child.h"

namespace torch_distinput::files_testing {
namespace {

using http_testing::HttpServer;

/// Objects over a server, as several processes with caches of their own in one folder would open them.
class CachedObjects : public http_testing::OverHttp {
 protected:
  DiskCache& new_cache(const CacheLimits& limits = kNoLimits) {
    return *new DiskCache(folder_.path("cache"), limits);  // caches live as long as the process
  }
  static std::shared_ptr<CachedObject> open(const HttpServer& server, DiskCache& cache) {
    const PlacePtr place = http_testing::place_of(server.url());
    const ObjectLook look = look_at(place, http_testing::time_limit());
    return CachedObject::make(std::make_shared<RemoteObject>(place, look.version, look.head), cache);
  }
  static std::string read(OpenObject& object, const ByteRange& range) {
    std::string bytes(range.size, '\0');
    bytes.resize(object.read(bytes, range.offset, http_testing::time_limit()));
    return bytes;
  }
  /// The blocks of all files.
  std::size_t blocks() const {
    std::size_t count = 0;
    for (const std::string& path : files()) {
      const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      const auto owner = file_owner(file.number());
      if (!owner) continue;
      const ByteRange range = file_range(owner->number, owner->key.size);
      for (std::uint64_t block = range.offset / kCacheBlock; block * kCacheBlock < range.end(); ++block)
        count += read_block_head(file.number(), owner->key, block).has_value();
    }
    return count;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    std::error_code gone;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path("cache/v1"), gone)) {
      if (entry.is_regular_file(gone) && entry.path().filename() != "usage")
        found.push_back(entry.path().string());
    }
    return found;
  }
  /// Blocks are kept beside the reading.
  void wait_for_blocks(std::size_t count) const {
    const Poll limit = http_testing::time_limit();
    while (blocks() < count) {
      limit();
      std::this_thread::yield();
    }
    EXPECT_EQ(blocks(), count);
  }

  const Folder folder_;
};

TEST_F(CachedObjects, AreAskedForOnce) {
  const HttpServer server(http_testing::random_object(1'000'000));
  DiskCache& cache = new_cache();
  EXPECT_EQ(read(*open(server, cache), {0, 1'000'000}), server.object());
  wait_for_blocks(4);
  const int before = server.requests();
  const auto again = open(server, new_cache());
  EXPECT_EQ(read(*again, {0, 2'000'000}), server.object());
  EXPECT_EQ(read(*again, {300'000, 10}), server.object().substr(300'000, 10));
  EXPECT_EQ(read(*again, {1'000'000, 10}), "");
  EXPECT_EQ(server.requests(), before + 1);  // the look at it
}

TEST_F(CachedObjects, HaveTheSameBytesWhateverIsReadAndAnnounced) {
  std::mt19937_64 random(1);
  for (int tries = 0; tries < 20; ++tries) {
    const HttpServer server(http_testing::random_object(1 + random() % 1'500'000));
    const std::string& bytes = server.object();
    DiskCache& cache =
        new_cache({.max_bytes = random() % 3 == 0 ? 600'000 : ~std::uint64_t{0}, .least_free = 0});
    const auto object = open(server, cache);
    const auto part = [&] { return ByteRange{random() % bytes.size(), 1 + random() % 400'000}; };
    for (int reads = 0; reads < 30; ++reads) {
      std::vector<ByteRange> soon(random() % 4);
      for (ByteRange& range : soon) range = part();
      object->will_read(soon);
      const ByteRange range = part();
      ASSERT_EQ(read(*object, range), bytes.substr(range.offset, range.size));
    }
  }
}

TEST_F(CachedObjects, AreReadAcrossFilesHoweverMuchOfThemIsThere) {
  constexpr std::uint64_t kLarge = 2 * kFileRange + 700'000;
  std::mt19937_64 random(2);
  const HttpServer server(http_testing::random_object(kLarge));
  for (int tries = 0; tries < 5; ++tries) {
    DiskCache& cache = new_cache();
    std::shared_ptr<OpenObject> object = open(server, cache);
    for (int reads = 0; reads < 12; ++reads) {
      if (random() % 4 == 0) object = open(server, cache);
      const ByteRange range{random() % kLarge, 1 + random() % (reads % 2 == 0 ? 6'000'000 : 300'000)};
      ASSERT_EQ(read(*object, range), server.object().substr(range.offset, range.size));
    }
  }
}

TEST_F(CachedObjects, AreAskedForAgainWhereBlocksAreDamaged) {
  const HttpServer server(http_testing::random_object(600'000));
  DiskCache& cache = new_cache();
  read(*open(server, cache), {0, 600'000});
  wait_for_blocks(3);
  const std::int64_t damaged = ReadCounts::of_process().damaged_blocks.value();
  const int before = server.requests();
  std::fstream file(files().front(), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(place_in_file(1, 600'000).offset + 1'000));
  file << static_cast<char>(server.object()[kCacheBlock + 1'000] ^ 1) << std::flush;
  EXPECT_EQ(read(*open(server, new_cache()), {0, 600'000}), server.object());
  EXPECT_EQ(ReadCounts::of_process().damaged_blocks.value(), damaged + 1);
  EXPECT_EQ(server.requests(), before + 2);
  wait_for_blocks(3);
  std::filesystem::resize_file(files().front(), 1'000);
  EXPECT_EQ(read(*open(server, new_cache()), {0, 600'000}), server.object());
  EXPECT_EQ(ReadCounts::of_process().damaged_blocks.value(), damaged + 2);
  EXPECT_EQ(server.requests(), before + 4);
  wait_for_blocks(3);
}

TEST_F(CachedObjects, HaveTheSameBytesWhileOthersRemoveThem) {
  constexpr std::uint64_t kLarge = 9'000'000;
  const HttpServer server(http_testing::random_object(kLarge));
  std::vector<std::thread> readers;
  std::atomic<int> wrong = 0;
  std::atomic<int> left = 4;
  for (int reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&, reader] {
      std::mt19937_64 random(static_cast<std::uint64_t>(reader));
      for (int epoch = 0; epoch < 4; ++epoch) {
        const auto object = open(server, new_cache());
        for (int reads = 0; reads < 60; ++reads) {
          const ByteRange range{random() % kLarge, 1 + random() % 600'000};
          if (random() % 2 == 0) object->will_read({&range, 1});
          const std::string right = server.object().substr(range.offset, range.size);
          wrong += read(*object, range) != right;
        }
      }
      --left;
    });
  }
  std::mt19937_64 random(9);
  const Poll limit = http_testing::time_limit();
  while (left > 0) {
    limit();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::vector<std::string> found = files();
    std::error_code gone;
    if (!found.empty()) std::filesystem::remove(found[random() % found.size()], gone);
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(read(*open(server, new_cache()), {0, kLarge}), server.object());
  wait_for_blocks(35);
}

TEST_F(CachedObjects, AreReadInPartsWhereThereIsNoRoom) {
  const HttpServer server(http_testing::random_object(2'000'000));
  const auto object = open(server, new_cache({.max_bytes = 0, .least_free = 0}));
  EXPECT_EQ(read(*object, {1'000'000, 100}), server.object().substr(1'000'000, 100));
  EXPECT_EQ(blocks(), 0u);
}

TEST_F(CachedObjects, AreReadWithoutAFolderToo) {
  const HttpServer server(http_testing::random_object(600'000));
  DiskCache& cache = *new DiskCache("/dev/null/cache", kNoLimits);
  EXPECT_EQ(read(*open(server, cache), {0, 600'000}), server.object());
  EXPECT_NE(cache.view().problem, "");
}

TEST_F(CachedObjects, AreReadInForkedChildren) {
  const HttpServer server(http_testing::random_object(1'000'000));
  DiskCache& cache = new_cache();
  const auto object = open(server, cache);
  const ByteRange first{0, 300'000};
  object->will_read({&first, 1});
  for (int times = 0; times < 3; ++times) read(*object, {0, 1'000});
  EXPECT_TRUE(true_in_forked_child([&] { return read(*object, {0, 1'000'000}) == server.object(); }));
  EXPECT_EQ(read(*object, {0, 1'000'000}), server.object());
}

TEST_F(CachedObjects, EndTheirClaimsWhereTheServerFails) {
  const HttpServer server(
      http_testing::random_object(600'000), [](const http_testing::Asked& asked, auto right) {
        return asked.range.offset == 0 && asked.range.size <= 4096 ? right : http_testing::status(404);
      });
  DiskCache& cache = new_cache();
  const auto object = open(server, cache);
  EXPECT_TRUE(http_testing::error_of([&] { read(*object, {300'000, 10}); }));
  const Poll limit = http_testing::time_limit();
  while (!files().empty()) limit();
  EXPECT_TRUE(http_testing::error_of([&] { read(*object, {300'000, 10}); }));
  while (!files().empty()) limit();
}

TEST_F(CachedObjects, TellRequestsWithoutMakingThem) {
  const HttpServer server(http_testing::random_object(2'000'000));
  const auto object = open(server, new_cache());
  const int before = server.requests();
  const std::vector<ByteRange> ranges{{0, 100}, {1'500'000, 100}};
  {
    const AnnouncedRequests announced;
    object->will_read(ranges);
    EXPECT_EQ(announced.count(), 2u);
    EXPECT_EQ(announced.bytes(), 2 * kCacheBlock);
  }
  EXPECT_EQ(server.requests(), before);
  EXPECT_EQ(blocks(), 0u);
}

}  // namespace
}  // namespace torch_distinput::files_testing
