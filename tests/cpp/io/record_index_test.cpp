// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/record_index.h"

#include <sys/stat.h>

#include "io/index_file.h"
#include "io/index_set.h"
#include "io/record_fetcher.h"
#include "io/sample_files.h"
#include "support/numbers.h"

namespace torch_distinput {
namespace {

using namespace files_testing;
using RecordFetcherTest = InFolder;
using BuildIndexTest = InFolder;
using IndexFilesTest = InFolder;
using Strings = std::vector<std::string>;

RecordIndex index_of(const std::string& path, const RecordFormat& format) {
  return build_index(File(path), format, [](std::uint64_t) {});
}

Strings fetch(const RecordFetcher& records, const std::vector<std::int64_t>& positions) {
  std::string bytes(records.most_bytes(positions), '?');
  std::vector<std::int64_t> sizes(positions.size());
  const std::uint64_t total = records.fetch(positions, bytes.data(), sizes);
  Strings result;
  std::size_t at = 0;
  for (const std::int64_t size : sizes) {
    result.push_back(bytes.substr(at, static_cast<std::size_t>(size)));
    at += static_cast<std::size_t>(size);
  }
  EXPECT_EQ(at, total);
  return result;
}

RecordFetcher fetcher(const Strings& files, const RecordFormat& format, int threads = 2) {
  return {files, index_files(files, format, threads, {})};
}

TEST(RecordOffsets, AreExactBeyond32Bits) {
  RecordOffsets offsets;
  std::vector<std::uint64_t> wanted;
  for (std::uint64_t i = 0; i < 300; ++i) {
    wanted.push_back(i < 100 ? 7 * i : (i << 30) * 3);
    offsets.add(wanted.back());
  }
  for (std::uint64_t i = 0; i < wanted.size(); ++i) ASSERT_EQ(offsets[i], wanted[i]) << i;
  EXPECT_TRUE(offsets.distances().empty());
}

TEST_F(RecordFetcherTest, ReadsWhatTheReaderReads) {
  const Strings records = random_records(3000);
  std::string text;
  for (const std::string& record : records) text += record + "\r\n";
  for (const auto& [path, format] :
       {std::pair{folder_.write("tf", tf_records(records)), kTfRecordFormat},
        std::pair{folder_.write("text", text), kLines},
        std::pair{folder_.write("open", text.substr(0, text.size() - 2)), kLines},
        std::pair{folder_.write("tail", text + "\r"), kLines},
        std::pair{folder_.write("blank", text + "\n\n"), kLines},
        std::pair{folder_.write("fixed", "HH" + text.substr(0, 70'000) + "F"), fixed(35'000, 2, 1)},
        std::pair{folder_.write("empty", ""), kLines}}) {
    const Strings wanted = read_all(reader(path, format));
    const RecordFetcher found = fetcher({path}, format);
    ASSERT_EQ(found.size(), static_cast<std::int64_t>(wanted.size())) << path;
    EXPECT_EQ(fetch(found, numbers(0, found.size())), wanted);
  }
}

TEST_F(RecordFetcherTest, ReadsAnyOrderOverManyFiles) {
  Strings files;
  Strings wanted;
  for (int i = 0; i < 100; ++i) {
    const Strings records = random_records(static_cast<std::size_t>(i % 4), static_cast<std::uint64_t>(i));
    files.push_back(folder_.write(std::to_string(i), tf_records(records)));
    wanted.insert(wanted.end(), records.begin(), records.end());
  }
  files.push_back(files.at(3));
  const Strings again = read_all(reader(files.at(3), kTfRecordFormat));
  wanted.insert(wanted.end(), again.begin(), again.end());
  const RecordFetcher found = fetcher(files, kTfRecordFormat);
  auto positions = numbers(0, found.size());
  std::shuffle(positions.begin(), positions.end(), std::mt19937_64(3));
  const Strings got = fetch(found, positions);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    ASSERT_EQ(got[i], wanted[static_cast<std::size_t>(positions[i])]);
  }
}

TEST_F(RecordFetcherTest, NamesAFileThatChanged) {
  const Strings records = random_records(2000);
  const std::string path = folder_.write("tf", tf_records(records));
  const RecordFetcher found = fetcher({path}, kTfRecordFormat);
  std::filesystem::resize_file(path, 1000);
  EXPECT_TRUE(
      has(error_of([&] { fetch(found, {0}); }, FileError::Kind::kChanged), "changed since it was indexed"));
}

TEST_F(RecordFetcherTest, FindsDamagedRecordsOfEverySize) {
  for (const std::size_t size : {10U, 100'000U}) {
    std::string bytes = tf_records({std::string(size, 'a'), std::string(size, 'b')});
    bytes[bytes.size() - 6] ^= 1;
    const RecordFetcher found = fetcher({folder_.write("tf", bytes)}, kTfRecordFormat);
    EXPECT_EQ(fetch(found, {0}), Strings{std::string(size, 'a')});
    const std::string message = error_of([&] { fetch(found, {1}); }, FileError::Kind::kDamaged);
    EXPECT_TRUE(has(message, "at byte " + std::to_string(size + 16)));
  }
}

TEST_F(BuildIndexTest, JumpsOverLargeRecords) {
  const Strings records{std::string(3'000'000, 'x'), "small", std::string(2'000'000, 'y'), "end"};
  const RecordIndex index = index_of(folder_.write("tf", tf_records(records)), kTfRecordFormat);
  ASSERT_EQ(index.size(), 4);
  EXPECT_EQ(index.extent(3).bytes, 19U);
}

TEST_F(BuildIndexTest, RefusesDamageThatHidesRecords) {
  std::string bytes = tf_records({"one", "two"});
  EXPECT_TRUE(has(error_of([&] { index_of(folder_.write("cut", bytes.substr(0, 30)), kTfRecordFormat); }),
                  "at byte 19"));
  EXPECT_TRUE(has(error_of([&] { index_of(folder_.write("head", bytes.substr(0, 25)), kTfRecordFormat); }),
                  "at byte 19"));
  bytes[20] ^= 1;
  EXPECT_TRUE(
      has(error_of([&] { index_of(folder_.write("crc", bytes), kTfRecordFormat); }), "length is wrong"));
  EXPECT_TRUE(has(error_of([&] { index_of(folder_.write("fixed", "12345"), fixed(2)); }),
                  "whole records of 2 bytes"));
}

TEST(IndexFile, DecodesToWhatWasEncoded) {
  const Folder folder;
  const std::string path = folder.write("tf", tf_records(random_records(500)));
  const RecordIndex index = index_of(path, kTfRecordFormat);
  const std::vector<char> bytes = encode_index(index);
  const auto read = decode_index(bytes, kTfRecordFormat, index.stamp());
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), index.size());
  for (std::int64_t i = 0; i < index.size(); ++i) {
    ASSERT_EQ(read->extent(i).offset, index.extent(i).offset);
    ASSERT_EQ(read->extent(i).bytes, index.extent(i).bytes);
  }
  EXPECT_FALSE(decode_index(bytes, kLines, index.stamp()));
  FileStamp later = index.stamp();
  ++later.mtime;
  EXPECT_FALSE(decode_index(bytes, kTfRecordFormat, later));
  EXPECT_FALSE(decode_index(std::span(bytes).first(bytes.size() - 1), kTfRecordFormat, index.stamp()));
}

/// Writes a file that is large enough to have its index stored, and returns its path.
std::string large_file(const Folder& folder) {
  return folder.write("large", tf_records(Strings(3000, std::string(100, 'x'))));
}

TEST_F(IndexFilesTest, StoresAnIndexAndUsesIt) {
  const std::string path = large_file(folder_);
  const std::string place = index_places(path, kTfRecordFormat).front();
  EXPECT_EQ(index_files({path}, kTfRecordFormat, 0, {})[0]->size(), 3000);
  ASSERT_TRUE(std::filesystem::exists(place));
  EXPECT_EQ(std::filesystem::path(place).filename().string().front(), '.');
  ASSERT_TRUE(load_index(File(path), kTfRecordFormat, stamp_of(path)));

  std::filesystem::resize_file(place, 100);  // damaged
  EXPECT_EQ(index_files({path}, kTfRecordFormat, 0, {})[0]->size(), 3000);
  ASSERT_TRUE(load_index(File(path), kTfRecordFormat, stamp_of(path)));

  folder_.write("large", tf_records(Strings(4000, std::string(100, 'y'))));  // stale
  EXPECT_EQ(index_files({path}, kTfRecordFormat, 0, {})[0]->size(), 4000);
}

TEST_F(IndexFilesTest, FallsBackToTheCacheFolder) {
  const Folder cache;
  const std::string path = large_file(folder_);
  ::setenv("XDG_CACHE_HOME", cache.path("").c_str(), 1);
  const Strings places = index_places(path, kTfRecordFormat);
  std::filesystem::create_directory(places.at(0));  // a folder in the place of the index file blocks it
  index_files({path}, kTfRecordFormat, 0, {});
  EXPECT_TRUE(std::filesystem::exists(places.at(1)));
  EXPECT_TRUE(load_index(File(path), kTfRecordFormat, stamp_of(path)));
  ::unsetenv("XDG_CACHE_HOME");
}

TEST_F(IndexFilesTest, ReplacesAPipeInThePlaceOfTheIndex) {
  const std::string path = large_file(folder_);
  const std::string place = index_places(path, kTfRecordFormat).front();
  ASSERT_EQ(::mkfifo(place.c_str(), 0600), 0);
  // This does not wait for a writer of the pipe.
  EXPECT_EQ(index_files({path}, kTfRecordFormat, 0, {})[0]->size(), 3000);
  EXPECT_TRUE(stamp_of(place).is_regular);
}

TEST_F(IndexFilesTest, RefusesFilesThatDoNotReportTheirSize) {
  EXPECT_TRUE(can_index(folder_.write("empty", "")));
  EXPECT_FALSE(can_index("/proc/self/status"));
  const std::string message = error_of([] { index_files({"/proc/self/status"}, kLines, 1, {}); });
  EXPECT_TRUE(has(message, "only regular files that report their size"));
}

TEST_F(IndexFilesTest, ThrowsTheErrorOfTheFileThatFails) {
  const std::string good = folder_.write("good", tf_records({"one"}));
  for (const int threads : {0, 3}) {
    const std::string message =
        error_of([&] { index_files({good, folder_.path("none"), good}, kTfRecordFormat, threads, {}); },
                 FileError::Kind::kMissing);
    EXPECT_TRUE(has(message, "none"));
  }
}

}  // namespace
}  // namespace torch_distinput
