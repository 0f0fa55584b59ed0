// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/sharding/stream_cut.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"
#include "distribute/fake_files.h"
#include "io/sample_files.h"
#include "support/errors.h"
#include "torch_distinput/files.h"

namespace torch_distinput {
namespace {

using op_testing::fails_at;
using op_testing::generated;
using op_testing::same;
using op_testing::values;
using StreamCutFiles = files_testing::InFolder;

bool yes(const Element&) { return true; }

Dataset some_files(std::int64_t count) {
  return Dataset(std::make_shared<FakeReader>(Dataset::range(count).node()));
}

Dataset three_of_each(const Dataset& numbers) {
  return numbers.flat_map([](const Element& number) {
    const std::int64_t first = 3 * op_testing::scalar(number);
    return Dataset::range(first, first + 3);
  });
}

StreamCutPtr cut(const Dataset& batches) { return std::get<StreamCutPtr>(cut_streams(batches.node())); }

/// How many streams of what.
std::string streams(const Dataset& rows) {
  const StreamCutPtr found = cut(rows.batch(2));
  return std::to_string(found->most()) + " " + found->describe();
}

std::string refusal(const Dataset& batches) { return std::get<std::string>(cut_streams(batches.node())); }

TEST(StreamCut, CutsFilesThatHaveNoRandomAccess) {
  EXPECT_EQ(streams(some_files(5)), "5 files of fake_reader");
  EXPECT_EQ(streams(some_files(5).map(same).shuffle({.buffer_size = 2}).repeat(2)), "5 files of fake_reader");
  EXPECT_EQ(streams(some_files(5000)), "1024 files of fake_reader");
  EXPECT_EQ(streams(some_files(5).concatenate(some_files(3))),
            "3 files of fake_reader, files of fake_reader");
}

TEST_F(StreamCutFiles, FilesOfStreamsAreReadInOrderAndNotIndexed) {
  std::vector<std::string> names;
  for (int file = 0; file < 64; ++file) names.push_back(folder_.write(std::to_string(file), "a\n"));
  const Dataset lines = TextLineDataset(names);
  const StreamCutPtr found = cut(lines.batch(2));
  const IterContext context = epoch_context(make_execution_context({}), 0, 0, /*stream_only=*/false);
  EXPECT_EQ(found->stream(3, 64)->plan(context), nullptr);
  EXPECT_EQ(found->stream(3, 64)->cardinality(), kUnknownCardinality);
  EXPECT_EQ(found->uncounted()->cardinality(), kUnknownCardinality);
  EXPECT_EQ(cut(lines.filter(yes).repeat().batch(2))->uncounted()->cardinality(), kInfiniteCardinality);
}

TEST(StreamCut, CutsTheLastOpWithRandomAccessIntoRanges) {
  EXPECT_EQ(streams(Dataset::range(100).filter(yes)), "6 elements of range");
  EXPECT_EQ(streams(Dataset::range(100).shuffle().filter(yes)), "6 elements of shuffle");
  EXPECT_EQ(streams(Dataset::range(100).batch(3).unbatch()), "2 elements of batch");
  EXPECT_EQ(streams(Dataset::range(100'000).filter(yes)), "1024 elements of range");
  EXPECT_EQ(streams(Dataset::range(100).repeat().filter(yes)), "6 elements of range");
}

TEST(StreamCut, FewElementsAreEnoughWhereEachMayBeMuch) {
  EXPECT_EQ(streams(three_of_each(Dataset::range(5))), "5 elements of range");
}

TEST_F(StreamCutFiles, ManyIndexedFilesAreCutByNameAndFewByRecords) {
  const auto numbered = [&](int count) {
    std::vector<std::string> names;
    for (int file = 0; file < count; ++file)
      names.push_back(folder_.write(std::to_string(file), "0\n1\n2\n3\n4\n5\n6\n7\n"));
    return TextLineDataset(names, {.index = true});
  };
  EXPECT_EQ(streams(numbered(4).filter(yes)), "2 elements of TextLineDataset");
  EXPECT_EQ(streams(numbered(64).to_number(at::kLong).filter(yes)), "64 files of TextLineDataset");
}

TEST(StreamCut, SaysWhyItDoesNotCut) {
  const Dataset read = some_files(5);
  EXPECT_TRUE(has(refusal(generated(9).batch(2)), "needs all elements in order"));
  EXPECT_TRUE(has(refusal(read.take(3).batch(2)), "take(count=3) needs all elements in order"));
  EXPECT_TRUE(has(refusal(Dataset::zip({read, read}).batch(2)), "zip"));
  EXPECT_TRUE(has(refusal(read.unique().batch(2)), "unique"));
  EXPECT_TRUE(has(refusal(some_files(1).batch(2)), "fake_reader() reads a single file"));
  EXPECT_TRUE(has(refusal(Dataset::range(9).filter(yes).batch(2)), "has too few elements"));
  EXPECT_TRUE(has(refusal(Dataset::range(99).batch(2)), "it has random access"));
  EXPECT_TRUE(has(refusal(read), "its elements are not batches of one size"));
  EXPECT_TRUE(has(refusal(read.batch(2).take(1)), "its elements are not batches of one size"));
  EXPECT_TRUE(has(refusal(read.batch(2).cache()), "its elements are not batches of one size"));
  EXPECT_TRUE(has(refusal(read.batch(std::vector<BatchSizeFrom>{{0, 2}, {1, 4}})), "batches of one size"));
}

TEST(StreamCut, RandomAccessWithoutKnownRowsIsCut) {
  EXPECT_EQ(cut(Dataset::range(100).batch(2).map(same))->describe(), "elements of range");
}

TEST(StreamCut, StreamsTogetherHaveEachElementOnce) {
  const Dataset read = some_files(23);
  for (const Dataset& rows :
       {read.filter(yes), read.shuffle({.buffer_size = 4}), read.assert_cardinality(23),
        read.concatenate(some_files(20)), three_of_each(Dataset::range(20)),
        Dataset::range(70).shuffle({.seed = 3}).filter(yes), Dataset::range(70).repeat(2).filter(yes),
        Dataset::sample_from_datasets({read, some_files(11)}, {.seed = 3}),
        Dataset(std::make_shared<FakeReader>(Dataset::range(23).shuffle({.seed = 3}).node()))}) {
    auto expected = values(rows);
    std::sort(expected.begin(), expected.end());
    const StreamCutPtr found = cut(rows.batch(2));
    for (std::int64_t count = 1; count <= 7; ++count) {
      std::vector<std::int64_t> all;
      for (std::int64_t stream = 0; stream < count; ++stream) {
        for (const std::int64_t value : values(Dataset(found->stream(stream, count)))) all.push_back(value);
      }
      std::sort(all.begin(), all.end());
      EXPECT_EQ(all, expected) << count << " of " << rows.explain();
    }
  }
}

}  // namespace
}  // namespace torch_distinput
