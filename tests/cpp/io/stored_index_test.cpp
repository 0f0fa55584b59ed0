// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
// Indexes that lie beside a file and are not its own, or not of anybody who may be believed.
#include <fstream>

#include <sys/stat.h>

#include "io/index_file.h"
#include "io/index_set.h"
#include "io/record_fetcher.h"
#include "io/sample_files.h"
#include "io/stored_file.h"

namespace torch_distinput {
namespace {

using namespace files_testing;
using StoredIndexTest = InFolder;

constexpr RecordFormat kGroups{.kind = RecordKind::kTarGroups};

/// Stores an index with these offsets for `path`, with a right head and checksum.
void plant(const std::string& path, const RecordFormat& format, const std::vector<std::uint64_t>& begins) {
  RecordOffsets offsets;
  for (const std::uint64_t begin : begins) offsets.add(begin);
  store_index(path, RecordIndex(format, stamp_of(path), std::move(offsets)));
  ASSERT_TRUE(std::filesystem::exists(index_places(path, format).front()));
}

bool is_believed(const std::string& path, const RecordFormat& format) {
  return load_index(File(path), format, stamp_of(path)).has_value();
}

std::string fetch_all(const std::string& path, const RecordFormat& format) {
  const RecordIndexPtr index = index_files({path}, format, 0, {})[0];
  const RecordFetcher records(
      {path}, {std::make_shared<RecordIndex>(*load_index(File(path), format, index->stamp()))});
  std::vector<std::int64_t> positions, sizes(static_cast<std::size_t>(records.size()));
  for (std::int64_t i = 0; i < records.size(); ++i) positions.push_back(i);
  std::string bytes(records.most_bytes(positions), '?');
  bytes.resize(records.fetch(positions, bytes.data(), sizes));
  return bytes;
}

TEST_F(StoredIndexTest, IsRefusedWhereRecordsFollowItsLast) {
  const std::string lines = folder_.write("lines", "one\ntwo\nthree\n");
  plant(lines, kLines, {0, 4, 8, 14});
  EXPECT_TRUE(is_believed(lines, kLines));
  for (const std::vector<std::uint64_t>& begins :
       {std::vector<std::uint64_t>{0}, {0, 4}, {0, 4, 8}, {0, 13}}) {
    plant(lines, kLines, begins);
    EXPECT_FALSE(is_believed(lines, kLines)) << begins.size();
  }
  const std::string tail = folder_.write("tail", "one\n" + std::string(50'000, '\r'));
  plant(tail, kLines, {0, 4});
  EXPECT_TRUE(is_believed(tail, kLines));
  const std::string records = folder_.write("records", tf_records({"one", "two"}));
  plant(records, kTfRecordFormat, {0, 19});
  EXPECT_FALSE(is_believed(records, kTfRecordFormat));
  plant(records, kTfRecordFormat, {0, 19, 38});
  EXPECT_TRUE(is_believed(records, kTfRecordFormat));
}

TEST_F(StoredIndexTest, OfOtherLinesIsAnErrorWhenTheyAreRead) {
  const std::string text = "one\ntwo\nthree\n";
  for (const std::vector<std::uint64_t>& begins : {std::vector<std::uint64_t>{0, 8, 14}, {0, 2, 4, 8, 14}}) {
    const std::string path = folder_.write("lines" + std::to_string(begins.size()), text);
    plant(path, kLines, begins);
    ASSERT_TRUE(is_believed(path, kLines));
    const std::string message = error_of([&] { fetch_all(path, kLines); }, FileError::Kind::kChanged);
    EXPECT_TRUE(has(message, "are not one line"));
  }
  const std::string large =
      folder_.write("large", std::string(40'000, 'x') + "\n" + std::string(40'000, 'y'));
  plant(large, kLines, {0, 80'001});
  EXPECT_TRUE(
      has(error_of([&] { fetch_all(large, kLines); }, FileError::Kind::kChanged), "are not one line"));
}

TEST_F(StoredIndexTest, OfATarArchiveHasWholeBlocks) {
  const std::string path = folder_.write("tar", std::string(4096, '\0'));
  RecordOffsets offsets;
  offsets.add(0);
  offsets.add(700);
  EXPECT_THROW(RecordIndex(kGroups, stamp_of(path), std::move(offsets)), std::invalid_argument);
}

TEST_F(StoredIndexTest, IsNotReadWhereItIsLargerThanItCanBe) {
  const std::string path = folder_.write("lines", "one\n");
  std::ofstream(index_places(path, kLines).front()).put('x');
  std::filesystem::resize_file(index_places(path, kLines).front(), std::uintmax_t{1} << 40);
  EXPECT_FALSE(is_believed(path, kLines));
}

TEST_F(StoredIndexTest, IsBelievedOnlyWhereNoStrangerCanWriteIt) {
  const std::string path = folder_.write("lines", "one\ntwo\n");
  plant(path, kLines, {0, 4, 8});
  const std::string place = index_places(path, kLines).front();
  const auto mode = [](const std::string& file, ::mode_t bits) { ASSERT_EQ(::chmod(file.c_str(), bits), 0); };
  ASSERT_NO_FATAL_FAILURE(mode(path, 0644));
  for (const ::mode_t bits : {0646U, 0664U, 0666U}) {
    ASSERT_NO_FATAL_FAILURE(mode(place, bits));
    EXPECT_FALSE(is_believed(path, kLines)) << bits;
  }
  ASSERT_NO_FATAL_FAILURE(mode(place, 0644));
  EXPECT_TRUE(is_believed(path, kLines));
  ASSERT_NO_FATAL_FAILURE(mode(path, 0664));
  ASSERT_NO_FATAL_FAILURE(mode(place, 0664));
  EXPECT_TRUE(is_believed(path, kLines));  // the same group may write to the data
  if (::geteuid() != 0) return;            // only the superuser can give files away
  ASSERT_EQ(::chown(place.c_str(), 4321, ::getegid()), 0);
  EXPECT_FALSE(is_believed(path, kLines));
  ASSERT_EQ(::chown(path.c_str(), 4321, ::getegid()), 0);
  EXPECT_TRUE(is_believed(path, kLines));
}

TEST_F(StoredIndexTest, IsNoLink) {
  const std::string path = folder_.write("lines", "one\ntwo\n");
  plant(path, kLines, {0, 4, 8});
  const std::string place = index_places(path, kLines).front();
  std::filesystem::rename(place, folder_.path("elsewhere"));
  std::filesystem::create_symlink(folder_.path("elsewhere"), place);
  EXPECT_FALSE(is_believed(path, kLines));
}

TEST_F(StoredIndexTest, HasTheModeOfTheDataUnderTheUmask) {
  const std::string path = folder_.write("lines", "one\ntwo\n");
  const ::mode_t before = ::umask(027);
  for (const auto& [data, wanted] :
       {std::pair{0600U, 0600U}, {0640U, 0640U}, {0664U, 0640U}, {0666U, 0640U}, {0444U, 0440U}}) {
    ASSERT_EQ(::chmod(path.c_str(), data), 0);
    plant(path, kLines, {0, 4, 8});
    struct ::stat status;
    ASSERT_EQ(::stat(index_places(path, kLines).front().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, wanted) << data;
  }
  ::umask(before);
}

TEST_F(StoredIndexTest, IsNotWrittenWhereTheEnvironmentSaysSo) {
  const std::string path = folder_.write("lines", "one\ntwo\n");
  ::setenv("TORCH_DISTINPUT_WRITE_INDEX", "0", 1);
  store_index(path, *index_files({path}, kLines, 0, {})[0]);
  ::unsetenv("TORCH_DISTINPUT_WRITE_INDEX");
  EXPECT_FALSE(std::filesystem::exists(index_places(path, kLines).front()));
}

}  // namespace
}  // namespace torch_distinput
