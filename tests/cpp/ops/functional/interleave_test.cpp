// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

/// The `count` elements 10 x, 10 x + 1, ...
std::function<Dataset(Element)> runs_of(std::int64_t count) {
  return [count](Element x) { return Dataset::range(10 * scalar(x), 10 * scalar(x) + count); };
}
Dataset increasing(Element x) { return Dataset::range(10 * scalar(x), 11 * scalar(x)); }

Dataset interleaved(std::int64_t elements, std::int64_t cycle, std::int64_t block,
                    std::optional<std::int64_t> calls = {}, bool deterministic = true) {
  return Dataset::range(elements).interleave(increasing, {.cycle_length = cycle,
                                                          .block_length = block,
                                                          .num_parallel_calls = calls,
                                                          .deterministic = deterministic});
}

TEST(Interleave, TakesTurnsInBlocks) {
  EXPECT_EQ(values(Dataset::range(3).interleave(runs_of(3), {.cycle_length = 2, .block_length = 2})),
            (Values{0, 1, 10, 11, 2, 12, 20, 21, 22}));
}

TEST(Interleave, ReplacesAnEndedDatasetAtItsNextTurn) {
  EXPECT_EQ(values(interleaved(5, 2, 1)), (Values{10, 20, 21, 30, 31, 40, 32, 41, 42, 43}));
}

TEST(Interleave, HasACycleOfFourByDefault) {
  EXPECT_EQ(values(Dataset::range(6).interleave(runs_of(2))),
            values(Dataset::range(6).interleave(runs_of(2), {.cycle_length = 4})));
}

TEST(Interleave, YieldsTheSameOnAnyNumberOfThreads) {
  for (const std::int64_t cycle : {1, 2, 3, 7}) {
    for (const std::int64_t block : {1, 2, 5}) {
      const Values expected = values(interleaved(8, cycle, block));
      for (const std::int64_t calls : {-1, 1, 2, 4}) {
        EXPECT_EQ(values(interleaved(8, cycle, block, calls)), expected)
            << cycle << ' ' << block << ' ' << calls;
        EXPECT_EQ(sorted(values(interleaved(8, cycle, block, calls, false))), sorted(expected));
      }
    }
  }
}

TEST(Interleave, ObeysTheLaws) {
  expect_laws(interleaved(6, 3, 2));
  expect_laws(interleaved(6, 3, 2, 2));
  expect_laws(generated(5).interleave(increasing, {.cycle_length = 2}).batch(2));
  EXPECT_NO_THROW(testing::assert_resumable(interleaved(6, 3, 2, 2, false), /*ordered=*/false));
}

TEST(Interleave, ResumesOnAnotherNumberOfThreads) {
  DatasetIterator serial = interleaved(7, 3, 2).iterate({.epoch = 0});
  for (int i = 0; i < 9; ++i) serial.next();
  const State state = serial.save();
  const auto rest = elements(serial);
  DatasetIterator parallel = interleaved(7, 3, 2, 2).iterate({.epoch = 0});
  parallel.load(state);
  EXPECT_EQ(elements(parallel), rest);
}

TEST(Interleave, ThrowsAnErrorInItsPlace) {
  const auto failing = [](Element x) {
    return Dataset::range(3).map([x = scalar(x)](Element y) {
      TORCH_CHECK(x != 1 || scalar(y) != 1, "bad row");
      return scalar(10 * x + scalar(y));
    });
  };
  for (const std::optional<std::int64_t> calls : {std::optional<std::int64_t>(), {2}}) {
    DatasetIterator iterator = Dataset::range(3)
                                   .interleave(failing, {.cycle_length = 2, .num_parallel_calls = calls})
                                   .iterate({.epoch = 0});
    for (const std::int64_t expected : {0, 10, 1}) EXPECT_EQ(scalar(*iterator.next()), expected);
    EXPECT_THROW(iterator.next(), c10::Error);
    EXPECT_THROW(iterator.next(), c10::Error);
  }
}

TEST(Interleave, ThrowsAnErrorOfTheInputWhenItsTurnComes) {
  const Dataset input = Dataset::range(4).map(fails_at(2));
  for (const std::optional<std::int64_t> calls : {std::optional<std::int64_t>(), {2}}) {
    DatasetIterator iterator =
        input.interleave(runs_of(2), {.cycle_length = 2, .num_parallel_calls = calls}).iterate({.epoch = 0});
    for (const std::int64_t expected : {0, 10, 1, 11}) EXPECT_EQ(scalar(*iterator.next()), expected);
    EXPECT_THROW(iterator.next(), c10::Error);
  }
}

TEST(Interleave, SkipsElementsWhoseFunctionFails) {
  const auto fails = [](Element x) {
    TORCH_CHECK(scalar(x) % 3 != 1, "bad");
    return increasing(std::move(x));
  };
  for (const std::optional<std::int64_t> calls : {std::optional<std::int64_t>(), {2}}) {
    const Dataset dataset = Dataset::range(6)
                                .interleave(fails, {.cycle_length = 2, .num_parallel_calls = calls})
                                .with_options(skipping());
    EXPECT_EQ(values(dataset), (Values{20, 30, 21, 31, 32, 50, 51, 52, 53, 54}));
    expect_laws(dataset);
  }
}

TEST(Interleave, CanBeDestroyedWhileThreadsReadEndlessDatasets) {
  const auto endless = [](Element x) { return Dataset::from_tensors(std::move(x)).repeat(); };
  const Dataset dataset = Dataset::range(3).interleave(endless, {.cycle_length = 3, .num_parallel_calls = 3});
  EXPECT_EQ(values(dataset.take(5)), (Values{0, 1, 2, 0, 1}));
}

TEST(Interleave, RefusesWrongArguments) {
  const auto message = [](InterleaveOptions options) {
    return message_of<c10::ValueError>([&] { Dataset::range(2).interleave(increasing, options); });
  };
  EXPECT_EQ(message({.cycle_length = 0}), "interleave: `cycle_length` must be at least 1, but is 0.");
  EXPECT_EQ(message({.block_length = 0}), "interleave: `block_length` must be at least 1, but is 0.");
  EXPECT_EQ(message({.num_parallel_calls = 0}),
            "interleave: `num_parallel_calls` must be at least 1, or -1 for automatic, but is 0.");
}

TEST(Interleave, DescribesItself) {
  EXPECT_EQ(
      interleaved(2, 3, 2, 4, false).node()->describe(),
      "interleave(function, cycle_length=3, block_length=2, num_parallel_calls=4, deterministic=False)");
  EXPECT_TRUE(
      has(interleaved(2, 3, 2).explain(), "interleave(function, cycle_length=3, block_length=2)  unknown"));
}

}  // namespace
}  // namespace torch_distinput
