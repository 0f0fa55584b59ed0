// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
// Damaged inputs: every parser reports an error or yields records, and never reads or writes outside its
// buffers (a sanitizer build checks that).
#include "io/index_file.h"
#include "io/index_set.h"
#include "io/inflater.h"
#include "io/record_fetcher.h"
#include "io/sample_files.h"

namespace torch_distinput {
namespace {

using namespace files_testing;

/// Scans and extracts all records and returns how many are intact. Each buffer has exactly the needed size,
/// so that a sanitizer sees any access outside of it.
std::size_t parse(const RecordFormat& format, const std::string& bytes) {
  std::size_t records = 0;
  for (std::size_t at = 0; at <= bytes.size();) {
    const std::vector<char> rest(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end());
    const RecordScan scan = scan_record(format, rest, /*whole=*/true);
    EXPECT_NE(scan.found, RecordScan::Found::kMore);
    if (scan.found != RecordScan::Found::kRecord) break;
    std::vector<char> to(most_contents(format, scan.bytes));
    try {
      const auto size = extract_contents(format, std::span(rest).first(scan.bytes), to.data(), "file", at);
      EXPECT_LE(size, to.size());
      ++records;
    } catch (const FileError&) {
      // A damaged record is an expected outcome.
    }
    at += scan.bytes;
  }
  return records;
}

TEST(Mutation, RecordParsers) {
  std::mt19937_64 random(1);
  const std::string tf = tf_records({"", "one", "another record", std::string(30, 'x')});
  const std::string text = "one\ntwo\r\n\nünï\r cödé €\nlast";
  std::size_t records = 0;
  for (int i = 0; i < kMutations; ++i) {
    records += parse(kTfRecordFormat, mutated(tf, random));
    records += parse(kLines, mutated(text, random));
    records += parse(fixed(1 + random() % 9, 0, random() % 4), mutated(text, random));
  }
  EXPECT_GT(records, static_cast<std::size_t>(kMutations));
}

TEST(Mutation, StoredIndex) {
  const Folder folder;
  const std::string path = folder.write("tf", tf_records(random_records(100)));
  const RecordIndex index = build_index(File(path), kTfRecordFormat, [](std::uint64_t) {});
  const std::vector<char> bytes = encode_index(index);
  const std::string good(bytes.begin(), bytes.end() - 4);
  std::mt19937_64 random(2);
  for (int i = 0; i < kMutations; ++i) {
    std::string bad = mutated(good, random);
    // Most mutations get a CRC that fits, so that the checks after the CRC's are tested too.
    bad += random() % 8 == 0 ? std::string("none") : bytes_of(crc32c(bad));
    const std::vector<char> exact(bad.begin(), bad.end());
    const auto read = decode_index(exact, kTfRecordFormat, index.stamp());
    if (!read) continue;
    for (std::int64_t record = 0; record < read->size(); ++record) {
      const auto [offset, size] = read->extent(record);
      ASSERT_LE(offset + size, index.stamp().size);
      ASSERT_GE(size, kTfRecordHead + kTfRecordFoot);
    }
  }
}

TEST(Mutation, Inflate) {
  std::mt19937_64 random(3);
  std::string text;
  for (int i = 0; i < 40; ++i) text += "line " + std::to_string(i * i) + "\n";
  for (int i = 0; i < kMutations; ++i) {
    const Compression compression = i % 2 == 0 ? Compression::kGzip : Compression::kZlib;
    static const std::string packed[] = {compressed(text, Compression::kGzip),
                                         compressed(text, Compression::kZlib)};
    const std::string bad = mutated(packed[i % 2], random);
    Inflater inflater(compression);
    std::vector<char> out(1 + random() % 200);
    std::vector<char> in(bad.begin(), bad.end());
    std::span<const char> rest(in);
    for (std::size_t made = 0; made < 1'000'000;) {
      const auto progress = inflater.step(rest, out);
      ASSERT_LE(progress.used, rest.size());
      ASSERT_LE(progress.made, out.size());
      rest = rest.subspan(progress.used);
      made += progress.made;
      if (!progress.problem.empty() || (progress.used == 0 && progress.made == 0)) break;
    }
  }
}

/// How many records are read, and how many are errors.
std::pair<std::size_t, std::size_t> count_records(RecordReader records) {
  std::size_t read = 0;
  std::size_t bad = 0;
  for (bool more = true; more;) {
    try {
      more = next(records).has_value();
      read += more ? 1 : 0;
    } catch (const FileError&) {
      ++bad;
    }
  }
  return {read, bad};
}

/// Whole files are read through the reader, with and without a limit for records, and through the index: all
/// find the same number of records, or the index refuses a file in which the reader finds damage.
TEST(Mutation, Files) {
  const Folder folder;
  std::mt19937_64 random(4);
  const std::string tf = tf_records(random_records(20));
  const std::string text = "one\ntwo\r\n\nthree\nlast";
  for (int i = 0; i < kMutations / 50; ++i) {
    const RecordFormat format = i % 2 == 0 ? kTfRecordFormat : kLines;
    const std::string path = folder.write("file", mutated(i % 2 == 0 ? tf : text, random));
    const auto [read, bad] = count_records(reader(path, format));
    const auto [small, refused] = count_records(
        {std::make_shared<const File>(path), format, Compression::kNone, 0, {}, /*max_record_bytes=*/100});
    EXPECT_EQ(small + refused, read + bad);
    try {
      const RecordFetcher found({path}, index_files({path}, format, 0, {}));
      EXPECT_EQ(static_cast<std::size_t>(found.size()), read + bad);
    } catch (const FileError&) {
      EXPECT_GT(bad, 0U);
    }
  }
}

}  // namespace
}  // namespace torch_distinput
