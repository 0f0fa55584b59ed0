// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/tar_format.h"

#include <cstdio>

#include "io/index_set.h"
#include "io/record_fetcher.h"
#include "io/sample_files.h"

namespace torch_distinput {
namespace {

using namespace files_testing;

constexpr RecordFormat kTar{.kind = RecordKind::kTarGroups};

std::string padded_with_zeros(std::string bytes) {
  bytes.resize((bytes.size() + 511) / 512 * 512, '\0');
  return bytes;
}

/// One entry: a ustar head with a right checksum, and the contents.
std::string tar_entry(const std::string& name, const std::string& data, char type = '0') {
  std::string head(512, '\0');
  name.copy(head.data(), 100);
  std::snprintf(head.data() + 124, 12, "%011zo", data.size());
  head.replace(148, 8, 8, ' ');
  head[156] = type;
  std::memcpy(head.data() + 257,
              "ustar\0"
              "00",
              8);
  unsigned int sum = 0;
  for (const char byte : head) sum += static_cast<unsigned char>(byte);
  std::snprintf(head.data() + 148, 7, "%06o", sum);
  return head + padded_with_zeros(data);
}

const std::string kTarEnd(1024, '\0');

/// The groups that a reader finds, as "key:suffix=size;...", and "damaged" for an error.
std::vector<std::string> groups_in(const std::string& bytes) {
  std::vector<std::string> groups;
  for (std::size_t at = 0;;) {
    const std::vector<char> rest(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end());
    const RecordScan scan = scan_record(kTar, rest, /*whole=*/true);
    EXPECT_NE(scan.found, RecordScan::Found::kMore);
    if (scan.found == RecordScan::Found::kEnd) return groups;
    if (scan.found != RecordScan::Found::kRecord) {
      groups.push_back("damaged");
      return groups;
    }
    try {
      std::vector<char> raw(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(scan.bytes));
      std::vector<char> to(most_contents(kTar, scan.bytes));
      const auto size = extract_contents(kTar, raw, to.data(), "file", at);
      EXPECT_LE(size, to.size());
      // In place, as records are read that are alone.
      EXPECT_EQ(extract_contents(kTar, raw, raw.data(), "file", at), size);
      EXPECT_TRUE(std::equal(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(size), raw.begin()));
      const TarGroup group = read_tar_group({to.data(), static_cast<std::size_t>(size)});
      groups.push_back(std::string(group.key) + ":");
      for (const auto& member : group.members)
        groups.back() += std::string(member.suffix) + "=" + std::to_string(member.data.size()) + ";";
    } catch (const FileError&) {
      groups.push_back("damaged");
    }
    at += scan.bytes;
  }
}

const std::string kSampleTar = tar_entry("d/", "", '5') + tar_entry("d/1.jpg", std::string(700, 'x')) +
                               tar_entry("d/1.seg.PNG", "") + tar_entry("README", "text") +
                               tar_entry("././@LongLink", std::string(300, 'n') + ".txt" + '\0', 'L') +
                               tar_entry("n", "long") + tar_entry("PaxHeader", "18 path=dir/3.cls\n", 'x') +
                               tar_entry("3", "7") + kTarEnd;

TEST(TarFormat, GroupsAreConsecutiveMembersWithOneKey) {
  const std::vector<std::string> groups{"d/1:jpg=700;seg.png=0;", std::string(300, 'n') + ":txt=4;",
                                        "dir/3:cls=1;"};
  EXPECT_EQ(groups_in(kSampleTar), groups);
}

TEST(TarFormat, ReaderAndIndexFindTheSameGroups) {
  const Folder folder;
  std::string bytes;
  std::mt19937_64 random(5);
  for (int i = 0; i < 300; ++i) {
    const std::string name = "k" + std::to_string(i);
    bytes += tar_entry(name + ".bin",
                       std::string(random() % 10 == 0 ? random() % 900'000 : random() % 3'000, 'b'));
    bytes += tar_entry(name + ".cls", std::to_string(i));
  }
  const std::string path = folder.write("a.tar", bytes + kTarEnd);
  const std::vector<std::string> read = read_all(reader(path, kTar));
  const RecordFetcher fetcher({path}, index_files({path}, kTar, 0, {}));
  ASSERT_EQ(fetcher.size(), 300);
  ASSERT_EQ(read.size(), 300U);
  for (std::int64_t i = 299; i >= 0; i -= 7) {
    std::string contents(fetcher.most_bytes({&i, 1}), '\0');
    std::int64_t size = 0;
    fetcher.fetch({&i, 1}, contents.data(), {&size, 1});
    contents.resize(static_cast<std::size_t>(size));
    EXPECT_EQ(contents, read[static_cast<std::size_t>(i)]);
  }
}

TEST(TarFormat, MutatedArchivesAreReadOrRefused) {
  std::mt19937_64 random(6);
  std::size_t whole = 0;
  std::size_t refused = 0;
  for (int i = 0; i < kMutations; ++i) {
    for (const std::string& group : groups_in(mutated(kSampleTar, random)))
      ++(group == "damaged" ? refused : whole);
  }
  EXPECT_GT(whole, static_cast<std::size_t>(kMutations) / 2);
  EXPECT_GT(refused, static_cast<std::size_t>(kMutations) / 4);
}

/// A wrong checksum hides what comes after it, so heads get a right one after the mutation.
TEST(TarFormat, MutatedHeadsWithRightChecksumsAreReadOrRefused) {
  std::mt19937_64 random(7);
  for (int i = 0; i < kMutations; ++i) {
    std::string bytes = kSampleTar;
    for (int changes = 0; changes < 3; ++changes) {
      const std::size_t head = random() % (bytes.size() / 512) * 512;
      bytes[head + random() % 512] = static_cast<char>(random());
      bytes.replace(head + 148, 8, 8, ' ');
      unsigned int sum = 0;
      for (std::size_t at = head; at < head + 512; ++at) sum += static_cast<unsigned char>(bytes[at]);
      std::snprintf(bytes.data() + head + 148, 7, "%06o", sum);
    }
    groups_in(bytes);
  }
}

TEST(TarFormat, WhatIsNoGroupIsRefusedWhereAnIndexSaysThatItIsOne) {
  const std::string folder = tar_entry("d/", "", '5');
  const std::string two = tar_entry("a.x", "1") + tar_entry("b.x", "2");
  for (const std::string& raw : {folder, two, tar_entry("a.x", "1") + tar_entry("b.y", "2")}) {
    std::vector<char> to(most_contents(kTar, raw.size()));
    const std::string message =
        error_of([&] { extract_contents(kTar, std::span(raw.data(), raw.size()), to.data(), "file", 0); },
                 FileError::Kind::kChanged);
    EXPECT_TRUE(has(message, "the index stored for it is not its own"));
  }
}

}  // namespace
}  // namespace torch_distinput
