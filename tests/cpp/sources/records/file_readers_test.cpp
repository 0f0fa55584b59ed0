// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "io/sample_files.h"
#include "ops/op_testing.h"
#include "torch_distinput/error.h"
#include "torch_distinput/files.h"

namespace torch_distinput {
namespace {

using files_testing::Folder;
using FileReaders = files_testing::InFolder;
using files_testing::tf_records;
using Strings = std::vector<std::string>;

/// The strings of an element that is one string or a column of strings.
Strings strings(const Element& element) {
  const auto& bytes = std::get<Bytes>(element.leaves().front());
  Strings result;
  for (std::int64_t i = 0; i < bytes.count(); ++i) result.emplace_back(bytes[i]);
  return result;
}

Strings read(const Dataset& dataset, IterateOptions options = {.epoch = 0}) {
  Strings result;
  for (const Element& element : op_testing::collect(dataset, options)) {
    for (std::string& one : strings(element)) result.push_back(std::move(one));
  }
  return result;
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

TEST_F(FileReaders, YieldTheRecordsOfAllFilesInOrder) {
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

TEST_F(FileReaders, IndexFilesWherePossible) {
  const Files files;
  EXPECT_EQ(TFRecordDataset(files.tf).cardinality(), 5);
  EXPECT_EQ(TextLineDataset(files.lines).cardinality(), 5);
  EXPECT_EQ(TextLineDataset(files.lines, {.index = false}).cardinality(), kUnknownCardinality);
  EXPECT_EQ(TextLineDataset(files.lines, {.compression_type = "ZLIB"}).cardinality(), kUnknownCardinality);
  EXPECT_EQ(sorted(read(TFRecordDataset(files.tf).shuffle({.seed = 3}))), sorted(files.records));
  EXPECT_EQ(read(TFRecordDataset(files.tf).shard(2, 1)), (Strings{"", "four"}));
}

TEST_F(FileReaders, BatchesAreColumns) {
  const Files files;
  const Dataset batches = TFRecordDataset(files.tf).batch(2);
  DatasetIterator iterator = batches.iterate();
  EXPECT_EQ(strings(*iterator.next()), (Strings{"one", ""}));
  EXPECT_EQ(read(batches), files.records);
}

TEST_F(FileReaders, ObeyTheLaws) {
  const Files files;
  const std::string gz = files.folder.write("gz", files_testing::compressed("a\nb\nc\n", Compression::kGzip));
  const Dataset shuffled = Dataset::list_files({files.folder.path("[ac]")}, {.seed = 2});
  for (const Dataset& dataset :
       {Dataset(TFRecordDataset(files.tf)), Dataset(TextLineDataset(files.lines, {.index = false})),
        Dataset(TextLineDataset(gz, {.compression_type = "GZIP"})), Dataset(TFRecordDataset(shuffled)),
        Dataset(FixedLengthRecordDataset(files.lines.at(2), 3, 1, 0)),
        TFRecordDataset(files.tf).shuffle({.seed = 1}).repeat(2)}) {
    op_testing::expect_laws(dataset);
  }
}

TEST_F(FileReaders, HaveTheSameElementsWithAnyNumberOfThreads) {
  const Strings records = files_testing::random_records(2000);
  const Dataset dataset = TFRecordDataset(folder_.write("tf", tf_records(records))).batch(7);
  for (const std::int64_t threads : {0, 1, 3}) {
    EXPECT_EQ(read(dataset.with_options({.num_threads = threads})), records);
  }
}

TEST_F(FileReaders, ReadTheNamesOfADataset) {
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
  EXPECT_TRUE(has(message, "TextLineDataset: `files` must yield names"));
}

TEST_F(FileReaders, RefuseArgumentsByName) {
  const auto refuses = [](auto call, const char* part) {
    EXPECT_TRUE(has(message_of<c10::ValueError>(call), part));
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

TEST_F(FileReaders, NameTheFileThatIsMissing) {
  const Strings names{folder_.write("a", "line\n"), folder_.path("none")};
  for (const bool index : {false, true}) {
    const auto message = message_of<NotFoundError>([&] { read(TextLineDataset(names, {.index = index})); });
    EXPECT_TRUE(has(message, "none: there is no such file"));
  }
  EXPECT_EQ(message_of<NotFoundError>([&] { Dataset::list_files({folder_.path("x*")}); }),
            "list_files: no file matches the pattern `" + folder_.path("x*") + "`.");
  message_of<NotFoundError>([&] { Dataset::list_files({folder_.path("none/x*")}); });
  EXPECT_TRUE(has(message_of<SystemError>([&] { read(TextLineDataset(folder_.path(""))); }), "directory"));
}

TEST_F(FileReaders, SkipWhatIsDamagedAndCountIt) {
  std::string bytes = tf_records({"one", "two", "three"});
  bytes[tf_records({"one"}).size() + 13] ^= 1;
  const Strings names{folder_.write("crc", bytes), folder_.path("none"),
                      folder_.write("cut", tf_records({"four", "five"}).substr(0, 30)),
                      folder_.write("good", tf_records({"six"}))};
  const Dataset dataset = TFRecordDataset(names).with_options(op_testing::skipping());
  EXPECT_EQ(read(dataset), (Strings{"one", "three", "four", "six"}));
  DatasetIterator iterator = dataset.iterate();
  while (iterator.next()) {
  }
  EXPECT_EQ(iterator.stats().skipped, 3);
  EXPECT_NO_THROW(testing::assert_resumable(dataset));
  const Dataset strict = dataset.with_options(op_testing::skipping({.max_count = 2}));
  const auto message = message_of<c10::ValueError>([&] { read(strict); });
  EXPECT_TRUE(has(message, "TFRecordDataset: 3 rows failed"));
}

TEST_F(FileReaders, HaveUnknownLengthIfFilesThatCannotBeCountedAreSkipped) {
  const std::string cut = folder_.path("cut");
  const Dataset dataset = TFRecordDataset(Strings{cut, folder_.write("good", tf_records({"two"}))});
  const auto counted = [&] { return dataset.batch(4).node()->checked_cardinality(); };
  message_of<NotFoundError>(counted);
  folder_.write("cut", tf_records({"one"}).substr(0, 15));
  const auto message = message_of<InvalidArgumentError>(counted);
  EXPECT_TRUE(has(message, "TFRecordDataset: " + cut + ": at byte 0"));
  // All callers that ask for the length get the error.
  for (const auto& asks : {+[](const Dataset& all) { all.cardinality(); },
                           +[](const Dataset& all) { all.repeat().take(1).cardinality(); },
                           +[](const Dataset& all) { all.shuffle(); },
                           +[](const Dataset& all) { all.select(at::zeros({1}, at::kLong)); }}) {
    EXPECT_EQ(message_of<InvalidArgumentError>([&] { asks(dataset); }), message);
  }
  const Dataset skips = dataset.with_options(op_testing::skipping());
  EXPECT_EQ(skips.batch(4).node()->checked_cardinality(), kUnknownCardinality);
  EXPECT_EQ(read(skips.cache()), Strings{"two"});
  // Once the file is intact, it is counted.
  folder_.write("cut", tf_records({"one"}));
  EXPECT_EQ(dataset.cardinality(), 2);
}

TEST_F(FileReaders, NameTheListOfFilesThatCannotBeRead) {
  const Dataset list = TextLineDataset(folder_.path("none"));
  const auto message =
      message_of<NotFoundError>([&] { TFRecordDataset(list, {.index = true}).cardinality(); });
  EXPECT_TRUE(has(message, "TextLineDataset: " + folder_.path("none")));
}

TEST_F(FileReaders, ReadFilesThatDoNotReportTheirSize) {
  EXPECT_EQ(TextLineDataset("/proc/self/status").cardinality(), kUnknownCardinality);
  EXPECT_EQ(read(TextLineDataset("/proc/self/status")).front().substr(0, 5), "Name:");
}

TEST_F(FileReaders, StayBeforeADamagedRecord) {
  std::string bytes = tf_records({"one", "two", "three"});
  bytes[tf_records({"one"}).size() + 13] ^= 1;
  for (const bool index : {false, true}) {
    const Dataset dataset = TFRecordDataset(folder_.write("tf", bytes), {.index = index});
    DatasetIterator iterator = dataset.iterate();
    EXPECT_EQ(strings(*iterator.next()), Strings{"one"});
    const auto message = message_of<InvalidArgumentError>([&] { iterator.next(); });
    EXPECT_TRUE(has(message, "tf: at byte 19: the CRC of a record's data is wrong"));
    EXPECT_EQ(message_of<InvalidArgumentError>([&] { iterator.next(); }), message);
  }
}

TEST_F(FileReaders, NoticeThatAFileChanged) {
  const std::string path = folder_.write("text", std::string(100'000, 'x') + "\none\ntwo\n");
  const Dataset dataset = TextLineDataset(path);
  DatasetIterator iterator = dataset.iterate();
  iterator.next();
  std::filesystem::resize_file(path, 10);
  const auto message = message_of<InvalidArgumentError>([&] {
    while (iterator.next()) {
    }
  });
  EXPECT_TRUE(has(message, "text: the file changed since it was indexed"));
  // A new epoch reads the new contents.
  EXPECT_EQ(read(dataset), Strings{"xxxxxxxxxx"});
}

}  // namespace
}  // namespace torch_distinput
