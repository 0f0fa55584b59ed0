// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

TEST(Shuffle, YieldsEveryElementOnceInAnotherOrder) {
  const Values all = values(Dataset::range(50).shuffle({.seed = 1}));
  EXPECT_NE(all, numbers(0, 50));
  EXPECT_EQ(sorted(all), numbers(0, 50));
}

TEST(Shuffle, DrawsItsOrderFromTheSeed) {
  const Values all = values(Dataset::range(50).shuffle({.seed = 1}));
  EXPECT_EQ(values(Dataset::range(50).shuffle({.seed = 1})), all);
  EXPECT_NE(values(Dataset::range(50).shuffle({.seed = 2})), all);
}

TEST(Shuffle, DiffersInEachEpochUnlessToldNotTo) {
  const Dataset anew = Dataset::range(50).shuffle({.seed = 1});
  EXPECT_NE(values(anew, {.epoch = 0}), values(anew, {.epoch = 1}));
  const Dataset same = Dataset::range(50).shuffle({.seed = 1, .reshuffle_each_iteration = false});
  EXPECT_EQ(values(same, {.epoch = 0}), values(same, {.epoch = 1}));
}

TEST(Shuffle, WithoutASeedFollowsTheBaseSeed) {
  const Dataset dataset = Dataset::range(50).shuffle();
  const IterateOptions base_seed = {.epoch = 0, .seed = 5};
  EXPECT_EQ(values(dataset, base_seed), values(dataset, base_seed));
  EXPECT_NE(values(dataset, base_seed), values(dataset, {.epoch = 0, .seed = 6}));
}

TEST(Shuffle, KeepsItsOrderAfterOpsThatChangeOnlySpeed) {
  const IterateOptions base_seed = {.epoch = 0, .seed = 5};
  const Dataset plain = Dataset::range(50).shuffle().map(same);
  const Dataset tuned = Dataset::range(50).shuffle().prefetch(2).map(same, {.num_parallel_calls = 2});
  EXPECT_EQ(values(tuned, base_seed), values(plain, base_seed));
}

TEST(Shuffle, WithAWindowOfOneKeepsTheOrder) {
  EXPECT_EQ(values(Dataset::range(20).shuffle({.buffer_size = 1, .seed = 1})), numbers(0, 20));
  EXPECT_EQ(values(generated(20).shuffle({.buffer_size = 1, .seed = 1})), numbers(0, 20));
}

TEST(Shuffle, WithAWindowMovesElementsLessThanTwoWindows) {
  const Values all = values(Dataset::range(200).shuffle({.buffer_size = 8, .seed = 1}));
  EXPECT_EQ(sorted(all), numbers(0, 200));
  EXPECT_NE(all, numbers(0, 200));
  for (std::int64_t i = 0; i < 200; ++i) EXPECT_LE(std::abs(all[static_cast<std::size_t>(i)] - i), 12);
}

TEST(Shuffle, HasTheOrderOfThePlanForUnknownLengths) {
  for (const std::int64_t size : {0, 1, 2, 3, 4, 5, 7, 8, 9, 20, 21}) {
    for (const std::int64_t window : {1, 2, 3, 4, 5, 8, 100}) {
      const ShuffleOptions options = {.buffer_size = window, .seed = 9};
      EXPECT_EQ(values(generated(size).shuffle(options)), values(Dataset::range(size).shuffle(options)))
          << size << " elements, windows of " << window;
    }
  }
}

TEST(Shuffle, WithAWindowReadsTwoWindowsAheadOnTheSequentialPath) {
  std::int64_t read = 0;
  const auto open = [&read] { return [&read]() -> std::optional<Element> { return scalar(read++); }; };
  const Dataset endless = scalars_from(open);
  DatasetIterator iterator = endless.shuffle({.buffer_size = 10, .seed = 1}).iterate();
  for (std::int64_t given = 1; given <= 100; ++given) {
    iterator.next();
    EXPECT_LE(read, given + 20);
  }
}

TEST(Shuffle, NeedsAWindowForAnEndlessDataset) {
  const Dataset endless = Dataset::range(10).repeat();
  EXPECT_EQ(values(endless.shuffle({.buffer_size = 5, .seed = 1}).take(30)).size(), 30U);
  const std::string message = message_of<c10::ValueError>([&] { endless.shuffle(); });
  EXPECT_TRUE(has(message, "is infinite; give `buffer_size`"));
}

TEST(Shuffle, NeedsAKnownLengthWithoutAWindow) {
  const std::string message = message_of<c10::ValueError>([] { generated(10).shuffle(); });
  EXPECT_TRUE(has(message, "is unknown; give `buffer_size`"));
}

TEST(Shuffle, RefusesAWindowBelowOne) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(3).shuffle({.buffer_size = 0}); }),
            "shuffle: `buffer_size` must be at least 1, or None for a full shuffle, but is 0.");
}

TEST(Shuffle, KeepsBatchesWhole) {
  std::vector<Values> batches = elements(Dataset::range(10).batch(3).shuffle({.seed = 4}));
  std::sort(batches.begin(), batches.end());
  EXPECT_EQ(batches, (std::vector<Values>{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9}}));
}

TEST(Shuffle, CountsTheRowsOfShuffledBatches) {
  const PlanPtr plan = plan_of(Dataset::range(1000).batch(3).shuffle({.seed = 4}));
  std::int64_t before = 0;
  for (std::int64_t step = 0; step < plan->size(); ++step) {
    EXPECT_EQ(plan->rows_before(step), before);
    before += plan->rows(step);
  }
  EXPECT_EQ(plan->rows_before(plan->size()), 1000);
}

TEST(Shuffle, UnderSkipDropsRowsThatFailAndShufflesTheRest) {
  const Dataset dataset = Dataset::range(30)
                              .map([](Element element) {
                                TORCH_CHECK(scalar(element) % 7 != 3, "bad row");
                                return element;
                              })
                              .shuffle({.seed = 1})
                              .with_options(skipping());
  const Values all = values(dataset);
  EXPECT_EQ(all.size(), 26U);
  EXPECT_NE(all, sorted(all));
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](std::int64_t value) { return value % 7 == 3; }), 0);
  EXPECT_NO_THROW(testing::assert_resumable(dataset));
}

TEST(Shuffle, WithoutAWindowNamesAnOpThatCountsSkippedRows) {
  const Dataset dataset = Dataset::range(30)
                              .map(make_function(same, "decode"))
                              .take(20)
                              .shuffle({.seed = 1})
                              .with_options(skipping());
  EXPECT_TRUE(has(message_of<c10::ValueError>([&] { dataset.iterate().next(); }), "`map(decode)`"));
}

TEST(Shuffle, DescribesItself) {
  EXPECT_EQ(Dataset::range(3).shuffle({.seed = 7}).node()->describe(),
            "shuffle(buffer_size=None, seed=7, reshuffle_each_iteration=True)");
}

TEST(Shuffle, ObeysTheLaws) {
  expect_laws(Dataset::range(20).shuffle({.seed = 1}));
  expect_laws(Dataset::range(20).shuffle());
  expect_laws(Dataset::range(20).shuffle({.buffer_size = 6, .seed = 1}));
  expect_laws(generated(20).shuffle({.buffer_size = 6, .seed = 1}));
  expect_laws(generated(5).shuffle({.buffer_size = 6}));
  expect_laws(Dataset::range(20).batch(3).shuffle({.buffer_size = 2, .seed = 1}).shuffle());
}

}  // namespace
}  // namespace torch_distinput
