// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/record_reader.h"

#include <filesystem>
#include <fstream>

#include <sys/stat.h>

#include "io/sample_files.h"
#include "runtime/worker_thread.h"

namespace torch_distinput {
namespace {

using namespace files_testing;
using RecordReaderTest = InFolder;
using Strings = std::vector<std::string>;

std::string lines(const Strings& records) {
  std::string bytes;
  for (const std::string& record : records) bytes += record + "\n";
  return bytes;
}

TEST_F(RecordReaderTest, ReadsWhatWasWritten) {
  const Strings records = random_records(3000);
  EXPECT_EQ(read_all(reader(folder_.write("text", lines(records)), kLines)), records);
  EXPECT_EQ(read_all(reader(folder_.write("tf", tf_records(records)), kTfRecordFormat)), records);
  EXPECT_EQ(read_all(reader(folder_.write("fixed", "HHaaabbbcccF"), fixed(3, 2, 1))),
            (Strings{"aaa", "bbb", "ccc"}));
  EXPECT_EQ(read_all(reader(folder_.write("empty", ""), kLines)), Strings{});
  EXPECT_EQ(read_all(reader(folder_.write("frame", "HHF"), fixed(3, 2, 1))), Strings{});
}

TEST_F(RecordReaderTest, ReadsCompressedFilesOfSeveralMembers) {
  const Strings records = random_records(2000);
  const std::string bytes = tf_records(records);
  const std::string two = compressed(bytes.substr(0, 5000), Compression::kGzip) +
                          compressed(bytes.substr(5000), Compression::kGzip);
  EXPECT_EQ(read_all(reader(folder_.write("gz", two), kTfRecordFormat, Compression::kGzip)), records);
  const std::string zlib = folder_.write("zlib", compressed(bytes, Compression::kZlib));
  EXPECT_EQ(read_all(reader(zlib, kTfRecordFormat, Compression::kZlib)), records);
  EXPECT_EQ(read_all(reader(folder_.write("none", ""), kLines, Compression::kGzip)), Strings{});
}

TEST_F(RecordReaderTest, UnpacksDataThatShrankALot) {
  const std::string path =
      folder_.write("zeros", compressed(std::string(3'000'000, 'z'), Compression::kGzip));
  EXPECT_EQ(read_all(reader(path, fixed(100'000), Compression::kGzip)),
            Strings(30, std::string(100'000, 'z')));
}

TEST_F(RecordReaderTest, ResumesFromAnyOffset) {
  const Strings records{"one", "", "three\r", "four"};
  const std::string plain = folder_.write("plain", lines(records));
  const std::string packed = folder_.write("packed", compressed(lines(records), Compression::kZlib));
  RecordReader first = reader(plain, kLines);
  for (std::size_t count = 0; count <= records.size(); ++count) {
    for (const auto& [path, compression] :
         {std::pair{plain, Compression::kNone}, std::pair{packed, Compression::kZlib}}) {
      EXPECT_EQ(read_all(reader(path, kLines, compression, first.offset())).size(), records.size() - count);
    }
    next(first);
  }
  const std::string message = error_of([&] { reader(packed, kLines, Compression::kZlib, 1000); });
  EXPECT_TRUE(has(message, "before the position"));
}

TEST_F(RecordReaderTest, ContinuesAfterARecordWithABadCrc) {
  std::string bytes = tf_records({"one", "two", "three"});
  bytes[tf_record("one").size() + 13] ^= 1;
  RecordReader records = reader(folder_.write("tf", bytes), kTfRecordFormat);
  EXPECT_EQ(next(records), "one");
  EXPECT_TRUE(has(error_of([&] { next(records); }, FileError::Kind::kDamaged), "tf: at byte 19: the CRC"));
  EXPECT_EQ(next(records), "three");
  EXPECT_EQ(next(records), std::nullopt);
}

TEST_F(RecordReaderTest, EndsAfterDamageThatHidesTheRest) {
  std::string bytes = tf_records({"one", "two"});
  bytes[tf_record("one").size()] ^= 1;
  RecordReader records = reader(folder_.write("tf", bytes), kTfRecordFormat);
  EXPECT_EQ(next(records), "one");
  EXPECT_TRUE(has(error_of([&] { next(records); }), "the rest of the file cannot be read"));
  EXPECT_EQ(next(records), std::nullopt);
}

TEST_F(RecordReaderTest, ReturnsTheRecordsBeforeATruncation) {
  const Strings records = random_records(500);
  const std::string packed = compressed(tf_records(records), Compression::kGzip);
  RecordReader some =
      reader(folder_.write("gz", packed.substr(0, packed.size() / 2)), kTfRecordFormat, Compression::kGzip);
  std::size_t count = 0;
  const std::string message = error_of([&] {
    while (next(some)) ++count;
  });
  EXPECT_TRUE(has(message, "too early"));
  EXPECT_GT(count, 100U);
  EXPECT_EQ(next(some), std::nullopt);
}

TEST_F(RecordReaderTest, RefusesMissingFilesFoldersAndShortHeaders) {
  EXPECT_TRUE(has(error_of([&] { File file(folder_.path("none")); }, FileError::Kind::kMissing),
                  "none: there is no such file"));
  EXPECT_TRUE(has(error_of([&] { File file(folder_.path("")); }, FileError::Kind::kSystem), "directory"));
  EXPECT_TRUE(has(error_of([&] { read_all(reader(folder_.write("short", "H"), fixed(3, 2, 1))); }),
                  "header of 2 bytes"));
}

TEST_F(RecordReaderTest, NamesAFileThatShrinksWhileItIsRead) {
  const std::string first = compressed(lines(random_records(2000, 1)), Compression::kGzip);
  const std::string packed = first + compressed(lines(random_records(2000, 2)), Compression::kGzip);
  struct Case {
    std::string path;
    RecordFormat format;
    std::size_t left;  ///< the new size: the file could end there without damage
    Compression compression = Compression::kNone;
  };
  for (const auto& [path, format, left, compression] :
       {Case{folder_.write("fixed", std::string(800'000, 'x')), fixed(8), 80},
        Case{folder_.write("text", std::string(800'000, '\n')), kLines, 0},
        Case{folder_.write("gz", packed), kLines, first.size(), Compression::kGzip}}) {
    const std::uint64_t size = std::filesystem::file_size(path);
    RecordReader records = reader(path, format, compression);
    ASSERT_TRUE(next(records));
    std::filesystem::resize_file(path, left);
    const std::string message = error_of(
        [&] {
          while (next(records)) {
          }
        },
        FileError::Kind::kChanged);
    EXPECT_TRUE(has(message, path + ": the file became shorter while it was read: it had " +
                                 std::to_string(size) + " bytes when it was opened, but now ends at byte " +
                                 std::to_string(left)));
    EXPECT_EQ(next(records), std::nullopt);
  }
}

TEST_F(RecordReaderTest, ReadsBytesAppendedMeanwhile) {
  const std::string path = folder_.write("text", std::string(800'000, '\n'));
  RecordReader records = reader(path, kLines);
  next(records);
  std::ofstream(path, std::ios::app) << "more\n";
  EXPECT_EQ(read_all(std::move(records)).back(), "more");
}

TEST_F(RecordReaderTest, RefusesAPositionAfterTheEnd) {
  const std::string path = folder_.write("text", "one\ntwo\n");
  EXPECT_EQ(read_all(reader(path, kLines, Compression::kNone, 8)), Strings{});
  const std::string message = error_of([&] { reader(path, kLines, Compression::kNone, 9); });
  EXPECT_TRUE(has(message, "text: the file ends before byte 9, the position to resume from"));
}

TEST_F(RecordReaderTest, ReadsAPipe) {
  const std::string path = folder_.path("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const std::string bytes = lines(random_records(300));
  const WorkerThread writer("writer", [&] { std::ofstream(path, std::ios::binary) << bytes; });
  EXPECT_EQ(lines(read_all(reader(path, kLines))), bytes);
}

struct Interrupted {};

/// Appends the records up to an interrupt or the end to `read`. Returns whether there was an interrupt.
bool interrupted(RecordReader& records, Strings& read) {
  try {
    while (auto record = next(records)) read.push_back(*std::move(record));
    return false;
  } catch (const Interrupted&) {
    return true;
  }
}

TEST_F(RecordReaderTest, AnInterruptEndsTheWaitForAPipeAndLosesNothing) {
  const Strings written = random_records(30);
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const bool plain = compression == Compression::kNone;
    const std::string bytes = plain ? lines(written) : compressed(lines(written), compression);
    const std::string path = folder_.path(plain ? "plain" : "packed");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    RecordReader records(std::make_shared<const File>(path), kLines, compression, 0,
                         [] { throw Interrupted(); });
    Strings read;
    EXPECT_TRUE(interrupted(records, read));  // no process has opened it for writing
    EXPECT_EQ(read, Strings{});
    {
      std::ofstream writer(path, std::ios::binary);
      writer << bytes.substr(0, bytes.size() / 2) << std::flush;
      EXPECT_TRUE(interrupted(records, read));
      EXPECT_FALSE(read.empty());
      writer << bytes.substr(bytes.size() / 2);
    }
    EXPECT_FALSE(interrupted(records, read));
    EXPECT_EQ(read, written);
  }
}

TEST_F(RecordReaderTest, AnInterruptWithinALineThatIsTooLargeLeavesThePositionBeforeIt) {
  const std::string path = folder_.path("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  RecordReader records(
      std::make_shared<const File>(path), kLines, Compression::kNone, 0, [] { throw Interrupted(); },
      /*max_record_bytes=*/100);
  std::ofstream writer(path, std::ios::binary);
  writer << "one\n" << std::string(1000, 'x') << std::flush;
  EXPECT_EQ(next(records), "one");
  EXPECT_EQ(error_of([&] { next(records); }, FileError::Kind::kDamaged),
            path + ": at byte 4: a line has more than `max_record_bytes`=100 bytes");
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(next(records), Interrupted);
    EXPECT_EQ(records.offset(), 4U);
    writer << std::string(1000, 'x') << std::flush;
  }
  writer << "\nlast\n" << std::flush;
  writer.close();
  EXPECT_EQ(next(records), "last");
  EXPECT_EQ(records.offset(), 4U + 3001U + 5U);
}

}  // namespace
}  // namespace torch_distinput
