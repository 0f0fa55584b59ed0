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
using Strings = std::vector<std::string>;

std::string lines(const Strings& records) {
  std::string bytes;
  for (const std::string& record : records) bytes += record + "\n";
  return bytes;
}

TEST(RecordReader, ReadsWhatWasWritten) {
  const Folder folder;
  const Strings records = random_records(3000);
  EXPECT_EQ(read_all(reader(folder.write("text", lines(records)), kLines)), records);
  EXPECT_EQ(read_all(reader(folder.write("tf", tf_records(records)), kTfRecordFormat)), records);
  EXPECT_EQ(read_all(reader(folder.write("fixed", "HHaaabbbcccF"), fixed(3, 2, 1))),
            (Strings{"aaa", "bbb", "ccc"}));
  EXPECT_EQ(read_all(reader(folder.write("empty", ""), kLines)), Strings{});
  EXPECT_EQ(read_all(reader(folder.write("frame", "HHF"), fixed(3, 2, 1))), Strings{});
}

TEST(RecordReader, ReadsCompressedFilesOfSeveralMembers) {
  const Folder folder;
  const Strings records = random_records(2000);
  const std::string bytes = tf_records(records);
  const std::string two = compressed(bytes.substr(0, 5000), Compression::kGzip) +
                          compressed(bytes.substr(5000), Compression::kGzip);
  EXPECT_EQ(read_all(reader(folder.write("gz", two), kTfRecordFormat, Compression::kGzip)), records);
  const std::string zlib = folder.write("zlib", compressed(bytes, Compression::kZlib));
  EXPECT_EQ(read_all(reader(zlib, kTfRecordFormat, Compression::kZlib)), records);
  EXPECT_EQ(read_all(reader(folder.write("none", ""), kLines, Compression::kGzip)), Strings{});
}

TEST(RecordReader, UnpacksDataThatShrankALot) {
  const Folder folder;
  const std::string path = folder.write("zeros", compressed(std::string(3'000'000, 'z'), Compression::kGzip));
  EXPECT_EQ(read_all(reader(path, fixed(100'000), Compression::kGzip)),
            Strings(30, std::string(100'000, 'z')));
}

TEST(RecordReader, ResumesFromAnyOffset) {
  const Folder folder;
  const Strings records{"one", "", "three\r", "four"};
  const std::string plain = folder.write("plain", lines(records));
  const std::string packed = folder.write("packed", compressed(lines(records), Compression::kZlib));
  RecordReader first = reader(plain, kLines);
  for (std::size_t count = 0; count <= records.size(); ++count) {
    for (const auto& [path, compression] :
         {std::pair{plain, Compression::kNone}, std::pair{packed, Compression::kZlib}}) {
      EXPECT_EQ(read_all(reader(path, kLines, compression, first.offset())).size(), records.size() - count);
    }
    next(first);
  }
  const std::string message = error_of([&] { reader(packed, kLines, Compression::kZlib, 1000); });
  EXPECT_NE(message.find("before the position"), std::string::npos) << message;
}

TEST(RecordReader, ContinuesAfterARecordWithABadCrc) {
  const Folder folder;
  std::string bytes = tf_records({"one", "two", "three"});
  bytes[tf_record("one").size() + 13] ^= 1;
  RecordReader records = reader(folder.write("tf", bytes), kTfRecordFormat);
  EXPECT_EQ(next(records), "one");
  const std::string message = error_of([&] { next(records); }, FileError::Kind::kDamaged);
  EXPECT_NE(message.find("tf: at byte 19: the CRC"), std::string::npos) << message;
  EXPECT_EQ(next(records), "three");
  EXPECT_EQ(next(records), std::nullopt);
}

TEST(RecordReader, EndsAfterDamageThatHidesTheRest) {
  const Folder folder;
  std::string bytes = tf_records({"one", "two"});
  bytes[tf_record("one").size()] ^= 1;
  RecordReader records = reader(folder.write("tf", bytes), kTfRecordFormat);
  EXPECT_EQ(next(records), "one");
  const std::string message = error_of([&] { next(records); });
  EXPECT_NE(message.find("the rest of the file cannot be read"), std::string::npos) << message;
  EXPECT_EQ(next(records), std::nullopt);
}

TEST(RecordReader, ReturnsTheRecordsBeforeATruncation) {
  const Folder folder;
  const Strings records = random_records(500);
  const std::string packed = compressed(tf_records(records), Compression::kGzip);
  RecordReader some =
      reader(folder.write("gz", packed.substr(0, packed.size() / 2)), kTfRecordFormat, Compression::kGzip);
  std::size_t count = 0;
  const std::string message = error_of([&] {
    while (next(some)) ++count;
  });
  EXPECT_NE(message.find("too early"), std::string::npos) << message;
  EXPECT_GT(count, 100U);
  EXPECT_EQ(next(some), std::nullopt);
}

TEST(RecordReader, RefusesMissingFilesFoldersAndShortHeaders) {
  const Folder folder;
  EXPECT_NE(error_of([&] { File file(folder.path("none")); }, FileError::Kind::kMissing)
                .find("none: there is no such file"),
            std::string::npos);
  EXPECT_NE(error_of([&] { File file(folder.path("")); }, FileError::Kind::kSystem).find("directory"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              read_all(reader(folder.write("short", "H"), fixed(3, 2, 1)));
            }).find("header of 2 bytes"),
            std::string::npos);
}

TEST(RecordReader, NamesAFileThatShrinksWhileItIsRead) {
  const Folder folder;
  const std::string first = compressed(lines(random_records(2000, 1)), Compression::kGzip);
  const std::string packed = first + compressed(lines(random_records(2000, 2)), Compression::kGzip);
  struct Case {
    std::string path;
    RecordFormat format;
    std::size_t left;  ///< the new size: the file could end there without damage
    Compression compression = Compression::kNone;
  };
  for (const auto& [path, format, left, compression] :
       {Case{folder.write("fixed", std::string(800'000, 'x')), fixed(8), 80},
        Case{folder.write("text", std::string(800'000, '\n')), kLines, 0},
        Case{folder.write("gz", packed), kLines, first.size(), Compression::kGzip}}) {
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
    EXPECT_NE(
        message.find(path + ": the file became shorter while it was read: it had " + std::to_string(size) +
                     " bytes when it was opened, but now ends at byte " + std::to_string(left)),
        std::string::npos)
        << message;
    EXPECT_EQ(next(records), std::nullopt);
  }
}

TEST(RecordReader, ReadsBytesAppendedMeanwhile) {
  const Folder folder;
  const std::string path = folder.write("text", std::string(800'000, '\n'));
  RecordReader records = reader(path, kLines);
  next(records);
  std::ofstream(path, std::ios::app) << "more\n";
  EXPECT_EQ(read_all(std::move(records)).back(), "more");
}

TEST(RecordReader, RefusesAPositionAfterTheEnd) {
  const Folder folder;
  const std::string path = folder.write("text", "one\ntwo\n");
  EXPECT_EQ(read_all(reader(path, kLines, Compression::kNone, 8)), Strings{});
  const std::string message = error_of([&] { reader(path, kLines, Compression::kNone, 9); });
  EXPECT_NE(message.find("text: the file ends before byte 9, the position to resume from"), std::string::npos)
      << message;
}

TEST(RecordReader, ReadsAPipe) {
  const Folder folder;
  const std::string path = folder.path("pipe");
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

TEST(RecordReader, AnInterruptEndsTheWaitForAPipeAndLosesNothing) {
  const Folder folder;
  const Strings written = random_records(30);
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const bool plain = compression == Compression::kNone;
    const std::string bytes = plain ? lines(written) : compressed(lines(written), compression);
    const std::string path = folder.path(plain ? "plain" : "packed");
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

TEST(RecordReader, AnInterruptWithinALineThatIsTooLargeLeavesThePositionBeforeIt) {
  const Folder folder;
  const std::string path = folder.path("pipe");
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
