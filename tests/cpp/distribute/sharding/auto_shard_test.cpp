// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/sharding/auto_shard.h"

#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"
#include "distribute/fake_files.h"
#include "io/sample_files.h"
#include "torch_distinput/error.h"
#include "torch_distinput/files.h"

namespace torch_distinput {
namespace {

using op_testing::same;
using op_testing::values;
using Policy = AutoShardPolicy;

Dataset files(std::int64_t count) {
  return Dataset(std::make_shared<FakeReader>(Dataset::range(count).node()));
}

Sharding shard(const Dataset& dataset, Policy policy, std::int64_t ranks = 2, std::int64_t rank = 1) {
  return auto_shard(dataset.node(), policy, ranks, rank);
}

TEST(AutoShard, AutoAssignsFilesWhereEverySourceReadsThem) {
  const Sharding sharding = shard(files(5).batch(2), Policy::kAuto);
  EXPECT_EQ(sharding.applied, Policy::kFile);
  EXPECT_EQ(values(Dataset(sharding.node)), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(shard(files(5).concatenate(files(4)), Policy::kAuto).applied, Policy::kFile);
}

TEST(AutoShard, LooksThroughTheOpsThatTheOriginalLooksThrough) {
  const auto yes = [](const Element&) { return true; };
  const Dataset read = files(3);
  for (const Dataset& seen_through : {read.batch(2),
                                      read.batch(2).unbatch(),
                                      read.batch(2).rebatch({1}),
                                      read.cache(),
                                      read.filter(yes),
                                      read.map(same),
                                      read.map(same, {.num_parallel_calls = 2}),
                                      read.padded_batch(2),
                                      read.ragged_batch(2),
                                      read.prefetch(2),
                                      read.repeat(2),
                                      read.shard(2, 0),
                                      read.shuffle({.buffer_size = 2}),
                                      read.skip(1),
                                      read.take(2),
                                      read.window(2),
                                      read.with_options({.seed = 1}),
                                      read.assert_cardinality(3),
                                      read.concatenate(read),
                                      Dataset::zip({read, read}),
                                      read.flat_map([](const Element&) { return Dataset::range(2); })}) {
    EXPECT_EQ(shard(seen_through, Policy::kAuto).applied, Policy::kFile) << seen_through.explain();
  }
  const auto choices = Dataset::range(1);
  for (const Dataset& opaque :
       {read.enumerate(), read.unique(), Dataset::sample_from_datasets({read, read}, {}),
        Dataset::choose_from_datasets({read, read}, choices)}) {
    EXPECT_EQ(shard(opaque, Policy::kAuto).applied, Policy::kData) << opaque.explain();
  }
}

TEST(AutoShard, FilesBelowUnbatchAreAssignedWhole) {
  const Dataset read = files(3).batch(2).unbatch();
  EXPECT_EQ(values(Dataset(shard(read, Policy::kAuto, 2, 0).node)), (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(values(Dataset(shard(read, Policy::kAuto, 2, 1).node)), (std::vector<std::int64_t>{1}));
}

TEST(AutoShard, FunctionsMayFollowAHint) {
  const Dataset marked = Dataset::range(4).shard(kShardHint, 0);
  const auto twice = [](const Element& element) { return Dataset::from_tensors(element).repeat(2); };
  EXPECT_EQ(to_string(*marked.map(same).node()->spec()), to_string(*marked.node()->spec()));
  const Dataset sharded(shard(marked.map(same).flat_map(twice).batch(2), Policy::kHint).node);
  EXPECT_EQ(values(sharded), (std::vector<std::int64_t>{1, 1, 3, 3}));
}

TEST(AutoShard, AutoAssignsDataOtherwiseAndSaysWhy) {
  const Sharding memory = shard(Dataset::range(5).batch(2), Policy::kAuto);
  EXPECT_EQ(memory.applied, Policy::kData);
  EXPECT_TRUE(has(memory.reason, "range(start=0, stop=5, step=1) does not read files"));
  const Dataset mixed = Dataset::zip({files(5), Dataset::range(5)});
  EXPECT_EQ(shard(mixed, Policy::kAuto).applied, Policy::kData);
  EXPECT_EQ(shard(mixed, Policy::kAuto).node, mixed.node());
}

TEST(AutoShard, FileNamesTheSourceThatReadsNoFiles) {
  const std::string message = message_of<NotFoundError>([] { shard(Dataset::range(5), Policy::kFile); });
  EXPECT_TRUE(has(message, "range(start=0, stop=5, step=1)"));
}

TEST(AutoShard, TheFileShardGoesBeforeEveryShuffle) {
  const Dataset names = Dataset::range(8).shuffle({.seed = 1}).shuffle({.seed = 2});
  const Dataset reader(std::make_shared<FakeReader>(names.node()));
  const op_testing::Values odd = values(Dataset(shard(reader.batch(2), Policy::kFile).node));
  EXPECT_EQ(sorted(odd), (std::vector<std::int64_t>{1, 3, 5, 7}));
  // Both shuffles stay, in the same order.
  EXPECT_EQ(odd, values(Dataset::range(8).shard(2, 1).shuffle({.seed = 1}).shuffle({.seed = 2})));
}

/// The files of `names` that two ranks read, sorted together.
std::vector<std::int64_t> read_by_two(const Dataset& names) {
  const Dataset reader(std::make_shared<FakeReader>(names.node()));
  std::vector<std::int64_t> all;
  for (const std::int64_t rank : {0, 1}) {
    const op_testing::Values mine = values(Dataset(shard(reader, Policy::kFile, 2, rank).node));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  return sorted(all);
}

TEST(AutoShard, OpsThatChooseShuffledNamesChooseForAllRanks) {
  const Dataset shuffled = Dataset::range(9).shuffle({.seed = 1});
  for (const Dataset& chosen :
       {shuffled.take(5), shuffled.skip(6), shuffled.shard(2, 1), shuffled.take(5).shuffle({.seed = 2}),
        shuffled.filter([](Element name) { return name.tensor().item<std::int64_t>() > 2; }).take(4)}) {
    EXPECT_EQ(read_by_two(chosen), sorted(values(chosen))) << chosen.explain();
  }
}

TEST(AutoShard, NamesTheOpsThatCountOnEachRank) {
  EXPECT_EQ(shard(files(4).skip(1).batch(2).take(3), Policy::kFile).reason,
            "each rank reads files i mod 2; skip(count=1) counts on each rank for itself; take(count=3) "
            "counts on "
            "each rank for itself");
  EXPECT_EQ(shard(files(4).batch(2), Policy::kFile).reason, "each rank reads files i mod 2");
}

TEST(AutoShard, TooFewFilesAreAnErrorOnEveryRank) {
  for (const std::int64_t rank : {0, 1, 2}) {
    const std::string message =
        message_of<InvalidArgumentError>([&] { shard(files(2), Policy::kFile, 3, rank); });
    EXPECT_TRUE(has(message, "only 2 file(s), fewer than the 3 ranks"));
    EXPECT_EQ(values(Dataset(shard(files(0), Policy::kFile, 3, rank).node)), op_testing::Values{});
  }
}

TEST(AutoShard, AutoWithTooFewFilesAssignsRangesOfRecords) {
  const files_testing::Folder folder;
  const std::string path = folder.write("text", "0\n1\n2\n3\n4\n");
  std::vector<std::int64_t> sizes;
  for (const std::int64_t rank : {0, 1, 2}) {
    const Sharding sharding = shard(TextLineDataset(path), Policy::kAuto, 3, rank);
    EXPECT_EQ(sharding.applied, Policy::kFile);
    EXPECT_TRUE(has(sharding.reason, "its range of the records"));
    sizes.push_back(sharding.node->cardinality());
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{2, 2, 1}));
  const Sharding streamed = shard(TextLineDataset(path, {.index = false}), Policy::kAuto, 3, 0);
  EXPECT_EQ(streamed.applied, Policy::kData);
  EXPECT_TRUE(has(streamed.reason, "only 1 file(s)"));
}

TEST(AutoShard, RecordsThatAnOpCountsAreNotAssignedInRanges) {
  const files_testing::Folder folder;
  const Dataset lines = TextLineDataset(folder.write("text", "0\n1\n2\n3\n4\n"));
  for (const Dataset& dataset : {lines.skip(1).batch(2), lines.take(4), lines.batch(2).take(1)}) {
    const Sharding sharding = shard(dataset, Policy::kAuto, 2, 1);
    EXPECT_EQ(sharding.applied, Policy::kData) << sharding.reason;
    EXPECT_EQ(sharding.node, dataset.node());
  }
}

/// Two rows for each file.
Dataset rows_of(Element file) {
  const std::int64_t first = 10 * file.tensor().item<std::int64_t>();
  return Dataset(std::make_shared<FakeReader>(Dataset::range(first, first + 2).node()));
}
Element dataset_of_rows(Element file) { return {Structure::leaf(), {rows_of(std::move(file)).node()}}; }

TEST(AutoShard, AssignsTheInputOfAFunctionThatMakesReaders) {
  const Dataset names = Dataset::range(4);
  const auto same = make_function([](Element rows) { return rows; });
  for (const Dataset& dataset : {names.flat_map(rows_of), names.interleave(rows_of, {.cycle_length = 1}),
                                 names.map(dataset_of_rows).flat_map(same), names.flat_map([](Element file) {
                                   return rows_of(std::move(file)).take(2);
                                 })}) {
    const Sharding sharding = shard(dataset, Policy::kAuto);
    EXPECT_EQ(sharding.applied, Policy::kFile) << dataset.explain();
    EXPECT_EQ(values(Dataset(sharding.node)), (std::vector<std::int64_t>{10, 11, 30, 31}));
  }
}

TEST(AutoShard, LooksThroughAFunctionThatMakesNoReaders) {
  const auto twice = [](Element row) { return Dataset::from_tensors(std::move(row)).repeat(2); };
  EXPECT_EQ(values(Dataset(shard(files(4).flat_map(twice), Policy::kAuto).node)),
            (std::vector<std::int64_t>{1, 1, 3, 3}));
  EXPECT_EQ(shard(Dataset::range(4).flat_map(twice), Policy::kAuto).applied, Policy::kData);
}

TEST(AutoShard, RemovesAnAssertedCardinality) {
  const Sharding sharding = shard(files(5).assert_cardinality(5).batch(2), Policy::kAuto);
  EXPECT_EQ(sharding.applied, Policy::kFile);
  EXPECT_EQ(values(Dataset(sharding.node)), (std::vector<std::int64_t>{1, 3}));
}

TEST(AutoShard, CannotLookThroughOpsThatMustSeeAllElements) {
  EXPECT_EQ(shard(files(5).unique(), Policy::kAuto).applied, Policy::kData);
  EXPECT_EQ(shard(Dataset::sample_from_datasets({files(5)}), Policy::kAuto).applied, Policy::kData);
}

TEST(AutoShard, OneRankReadsEverything) {
  const Dataset memory = Dataset::range(5);
  EXPECT_EQ(shard(memory, Policy::kFile, 1, 0).node, memory.node());
  EXPECT_EQ(shard(memory, Policy::kFile, 1, 0).applied, Policy::kFile);
  EXPECT_EQ(shard(memory, Policy::kAuto, 1, 0).applied, Policy::kData);
  EXPECT_EQ(shard(files(3), Policy::kAuto, 1, 0).applied, Policy::kFile);
}

TEST(AutoShard, HintShardsWhereTheHintIs) {
  const Dataset marked = Dataset::range(10).shard(kShardHint, 0).batch(2);
  const Sharding sharding = shard(marked, Policy::kHint);
  EXPECT_EQ(sharding.applied, Policy::kHint);
  EXPECT_EQ(values(Dataset(sharding.node)), (std::vector<std::int64_t>{1, 3, 5, 7, 9}));
  EXPECT_EQ(shard(marked, Policy::kHint, 1, 0).node->cardinality(), 5);
}

TEST(AutoShard, HintWithoutAHintIsOff) {
  const Dataset plain = Dataset::range(10);
  const Sharding sharding = shard(plain, Policy::kHint);
  EXPECT_EQ(sharding.applied, Policy::kOff);
  EXPECT_EQ(sharding.node, plain.node());
}

TEST(AutoShard, RefusesARankOutOfRange) {
  EXPECT_THROW(shard(Dataset::range(3), Policy::kAuto, 2, 2), InvalidArgumentError);
  EXPECT_THROW(shard(Dataset::range(3), Policy::kAuto, 2, -1), InvalidArgumentError);
  EXPECT_THROW(shard(Dataset::range(3), Policy::kAuto, 0, 0), InvalidArgumentError);
}

}  // namespace
}  // namespace torch_distinput
