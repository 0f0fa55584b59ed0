// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "execution/open.h"
#include "io/sample_files.h"
#include "support/errors.h"
#include "torch_distinput/error.h"
#include "torch_distinput/files.h"
#include "torch_distinput/testing.h"

namespace torch_distinput {
namespace {

using files_testing::Folder;
using files_testing::tf_records;
using Strings = std::vector<std::string>;

std::string text(const Bytes& bytes, std::int64_t begin, std::int64_t end) {
  return {static_cast<const char*>(bytes.values.const_data_ptr()) + begin,
          static_cast<std::size_t>(end - begin)};
}

/// The strings of an element that is one string or a column of strings.
Strings strings(const Element& element) {
  const auto& bytes = std::get<Bytes>(element.leaves().front());
  if (bytes.shape.empty()) return {text(bytes, 0, bytes.values.numel())};
  Strings result;
  const auto* offsets = bytes.offsets.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < bytes.shape.front(); ++i)
    result.push_back(text(bytes, offsets[i], offsets[i + 1]));
  return result;
}

Strings read(const Dataset& dataset, IterateOptions options = {.epoch = 0}) {
  Strings result;
  DatasetIterator iterator = dataset.iterate(options);
  while (const auto element = iterator.next()) {
    for (std::string& one : strings(*element)) result.push_back(std::move(one));
  }
  return result;
}

Strings sorted(Strings strings) {
  std::sort(strings.begin(), strings.end());
  return strings;
}

/// Three files of 3, 0 and 2 records.
struct Files {
  Folder folder;
  Strings records{"one", "", "three", "four", "five"};
  Strings tf{folder.write("a", tf_records({"one", "", "three"})), folder.write("b", ""),
             folder.write("c", tf_records({"four", "five"}))};
  Strings lines{folder.write("d", "one\r\n\nthree"), folder.write("e", ""),
                folder.write("f", "four\nfive\n")};
};

TEST(FileReaders, YieldTheRecordsOfAllFilesInOrder) {
  const Files files;
  EXPECT_EQ(read(TFRecordDataset(files.tf)), files.records);
  EXPECT_EQ(read(TextLineDataset(files.lines)), files.records);
  EXPECT_EQ(read(TFRecordDataset(files.tf, {.index = false})), files.records);
  EXPECT_EQ(read(FixedLengthRecordDataset(files.lines.at(2), 2, 1, 1)), (Strings{"ou", "r\n", "fi", "ve"}));
  const std::string gz =
      files.folder.write("gz", files_testing::compressed(tf_records(files.records), Compression::kGzip));
  EXPECT_EQ(read(TFRecordDataset(gz, {.compression_type = "GZIP"})), files.records);
  EXPECT_EQ(read(TextLineDataset(Strings{})), Strings{});
}

TEST(FileReaders, IndexFilesWherePossible) {
  const Files files;
  EXPECT_EQ(TFRecordDataset(files.tf).cardinality(), 5);
  EXPECT_EQ(TextLineDataset(files.lines).cardinality(), 5);
  EXPECT_EQ(TextLineDataset(files.lines, {.index = false}).cardinality(), kUnknownCardinality);
  EXPECT_EQ(TextLineDataset(files.lines, {.compression_type = "ZLIB"}).cardinality(), kUnknownCardinality);
  EXPECT_EQ(sorted(read(TFRecordDataset(files.tf).shuffle({.seed = 3}))), sorted(files.records));
  EXPECT_EQ(read(TFRecordDataset(files.tf).shard(2, 1)), (Strings{"", "four"}));
}

TEST(FileReaders, BatchesAreColumns) {
  const Files files;
  const Dataset batches = TFRecordDataset(files.tf).batch(2);
  DatasetIterator iterator = batches.iterate();
  EXPECT_EQ(strings(*iterator.next()), (Strings{"one", ""}));
  EXPECT_EQ(read(batches), files.records);
}

TEST(FileReaders, ObeyTheLaws) {
  const Files files;
  const std::string gz = files.folder.write("gz", files_testing::compressed("a\nb\nc\n", Compression::kGzip));
  const Dataset shuffled = Dataset::list_files({files.folder.path("[ac]")}, {.seed = 2});
  for (const Dataset& dataset :
       {Dataset(TFRecordDataset(files.tf)), Dataset(TextLineDataset(files.lines, {.index = false})),
        Dataset(TextLineDataset(gz, {.compression_type = "GZIP"})), Dataset(TFRecordDataset(shuffled)),
        Dataset(FixedLengthRecordDataset(files.lines.at(2), 3, 1, 0)),
        TFRecordDataset(files.tf).shuffle({.seed = 1}).repeat(2)}) {
    EXPECT_NO_THROW(testing::assert_resumable(dataset));
    EXPECT_NO_THROW(testing::assert_paths_agree(dataset));
  }
}

TEST(FileReaders, HaveTheSameElementsWithAnyNumberOfThreads) {
  const Folder folder;
  const Strings records = files_testing::random_records(2000);
  const Dataset dataset = TFRecordDataset(folder.write("tf", tf_records(records))).batch(7);
  for (const std::int64_t threads : {0, 1, 3}) {
    Options options;
    options.num_threads = threads;
    EXPECT_EQ(read(dataset.with_options(options)), records);
  }
}

TEST(FileReaders, ReadTheNamesOfADataset) {
  const Files files;
  const Dataset names = Dataset::list_files({files.folder.path("*")}, {.shuffle = false});
  EXPECT_EQ(read(names),
            (Strings{files.tf[0], files.tf[1], files.tf[2], files.lines[0], files.lines[1], files.lines[2]}));
  const Dataset tf = TFRecordDataset(names.take(3));
  EXPECT_EQ(read(tf), files.records);
  EXPECT_EQ(tf.cardinality(), 5);
  EXPECT_EQ(TFRecordDataset(names.take(3).shuffle()).cardinality(), 5);
  // These read other files in each epoch.
  EXPECT_EQ(TFRecordDataset(names.take(3).shuffle().take(1)).cardinality(), kUnknownCardinality);
  EXPECT_EQ(TFRecordDataset(names.take(3).repeat()).cardinality(), kUnknownCardinality);
  const auto message = message_of<c10::TypeError>([] { TextLineDataset(Dataset::range(3)); });
  EXPECT_NE(message.find("TextLineDataset: `files` must yield names"), std::string::npos) << message;
}

TEST(FileReaders, RefuseArgumentsByName) {
  const auto refuses = [](auto call, const char* part) {
    const std::string message = message_of<c10::ValueError>(call);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refuses([] { TextLineDataset("a", {.compression_type = "LZ4"}); }, "`compression_type` must be None");
  refuses([] { TextLineDataset("a", {.compression_type = "GZIP", .index = true}); }, "`index=True` needs");
  refuses([] { FixedLengthRecordDataset("a", 0); }, "`record_bytes` must be at least 1");
  refuses([] { FixedLengthRecordDataset("a", 1, -1); }, "`header_bytes` must be at least 0");
  refuses([] { FixedLengthRecordDataset("a", 1, 0, -1); }, "`footer_bytes` must be at least 0");
  refuses([] { TextLineDataset(""); }, "must not be empty");
  refuses([] { TextLineDataset(std::string("a\0b", 3)); }, "NUL");
  refuses(
      [] {
        TextLineDataset(Dataset::list_files({"/dev/null"}, {.shuffle = false}).repeat(), {.index = true})
            .cardinality();
      },
      "number of files");
}

TEST(FileReaders, NameTheFileThatIsMissing) {
  const Folder folder;
  const Strings names{folder.write("a", "line\n"), folder.path("none")};
  for (const bool index : {false, true}) {
    const auto message = message_of<NotFoundError>([&] { read(TextLineDataset(names, {.index = index})); });
    EXPECT_NE(message.find("none: there is no such file"), std::string::npos) << message;
  }
  EXPECT_EQ(message_of<NotFoundError>([&] { Dataset::list_files({folder.path("x*")}); }),
            "list_files: no file matches the pattern `" + folder.path("x*") + "`.");
  message_of<NotFoundError>([&] { Dataset::list_files({folder.path("none/x*")}); });
  const auto folders = message_of<SystemError>([&] { read(TextLineDataset(folder.path(""))); });
  EXPECT_NE(folders.find("directory"), std::string::npos) << folders;
}

TEST(FileReaders, SkipWhatIsDamagedAndCountIt) {
  const Folder folder;
  std::string bytes = tf_records({"one", "two", "three"});
  bytes[tf_records({"one"}).size() + 13] ^= 1;
  const Strings names{folder.write("crc", bytes), folder.path("none"),
                      folder.write("cut", tf_records({"four", "five"}).substr(0, 30)),
                      folder.write("good", tf_records({"six"}))};
  Options options;
  options.skip = Skip{};
  const Dataset dataset = TFRecordDataset(names).with_options(options);
  EXPECT_EQ(read(dataset), (Strings{"one", "three", "four", "six"}));
  DatasetIterator iterator = dataset.iterate();
  while (iterator.next()) {
  }
  EXPECT_EQ(iterator.stats().skipped, 3);
  EXPECT_NO_THROW(testing::assert_resumable(dataset));
  options.skip = Skip{.max_count = 2};
  const auto message = message_of<c10::ValueError>([&] { read(dataset.with_options(options)); });
  EXPECT_NE(message.find("TFRecordDataset: 3 rows failed"), std::string::npos) << message;
}

TEST(FileReaders, HaveUnknownLengthIfFilesThatCannotBeCountedAreSkipped) {
  const Folder folder;
  const std::string cut = folder.path("cut");
  const Dataset dataset = TFRecordDataset(Strings{cut, folder.write("good", tf_records({"two"}))});
  const auto counted = [&] { return dataset.batch(4).node()->checked_cardinality(); };
  message_of<NotFoundError>(counted);
  folder.write("cut", tf_records({"one"}).substr(0, 15));
  const auto message = message_of<InvalidArgumentError>(counted);
  EXPECT_NE(message.find("TFRecordDataset: " + cut + ": at byte 0"), std::string::npos) << message;
  // All callers that ask for the length get the error.
  for (const auto& asks : {+[](const Dataset& all) { all.cardinality(); },
                           +[](const Dataset& all) { all.repeat().take(1).cardinality(); },
                           +[](const Dataset& all) { all.shuffle(); },
                           +[](const Dataset& all) { all.select(at::zeros({1}, at::kLong)); }}) {
    EXPECT_EQ(message_of<InvalidArgumentError>([&] { asks(dataset); }), message);
  }
  Options options;
  options.skip = Skip{};
  const Dataset skips = dataset.with_options(options);
  EXPECT_EQ(skips.batch(4).node()->checked_cardinality(), kUnknownCardinality);
  EXPECT_EQ(read(skips.cache()), Strings{"two"});
  // Once the file is intact, it is counted.
  folder.write("cut", tf_records({"one"}));
  EXPECT_EQ(dataset.cardinality(), 2);
}

TEST(FileReaders, NameTheListOfFilesThatCannotBeRead) {
  const Folder folder;
  const Dataset list = TextLineDataset(folder.path("none"));
  const auto message =
      message_of<NotFoundError>([&] { TFRecordDataset(list, {.index = true}).cardinality(); });
  EXPECT_NE(message.find("TextLineDataset: " + folder.path("none")), std::string::npos) << message;
}

TEST(FileReaders, ReadFilesThatDoNotReportTheirSize) {
  EXPECT_EQ(TextLineDataset("/proc/self/status").cardinality(), kUnknownCardinality);
  EXPECT_EQ(read(TextLineDataset("/proc/self/status")).front().substr(0, 5), "Name:");
}

TEST(FileReaders, StayBeforeADamagedRecord) {
  const Folder folder;
  std::string bytes = tf_records({"one", "two", "three"});
  bytes[tf_records({"one"}).size() + 13] ^= 1;
  for (const bool index : {false, true}) {
    const Dataset dataset = TFRecordDataset(folder.write("tf", bytes), {.index = index});
    DatasetIterator iterator = dataset.iterate();
    EXPECT_EQ(strings(*iterator.next()), Strings{"one"});
    const auto message = message_of<InvalidArgumentError>([&] { iterator.next(); });
    EXPECT_NE(message.find("tf: at byte 19: the CRC of a record's data is wrong"), std::string::npos)
        << message;
    EXPECT_EQ(message_of<InvalidArgumentError>([&] { iterator.next(); }), message);
  }
}

TEST(FileReaders, NoticeThatAFileChanged) {
  const Folder folder;
  const std::string path = folder.write("text", std::string(100'000, 'x') + "\none\ntwo\n");
  const Dataset dataset = TextLineDataset(path);
  DatasetIterator iterator = dataset.iterate();
  iterator.next();
  std::filesystem::resize_file(path, 10);
  const auto message = message_of<InvalidArgumentError>([&] {
    while (iterator.next()) {
    }
  });
  EXPECT_NE(message.find("text: the file changed since it was indexed"), std::string::npos) << message;
  // A new epoch reads the new contents.
  EXPECT_EQ(read(dataset), Strings{"xxxxxxxxxx"});
}

}  // namespace
}  // namespace torch_distinput
