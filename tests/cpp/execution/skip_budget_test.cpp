// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/op_testing.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

/// `range(size)` through a map that fails on every element k with k mod `every` == 0.
Dataset flawed(std::int64_t size, std::int64_t every, Skip limits, MapOptions options = {}) {
  const auto map = [every](Element element) {
    if (scalar(element) % every == 0) throw std::runtime_error("row " + std::to_string(scalar(element)));
    return element;
  };
  return Dataset::range(size)
      .map(make_function(map, "flawed"), std::move(options))
      .with_options(skipping(limits));
}

TEST(SkipBudget, DropsRowsThatFailAndCountsThem) {
  for (const MapOptions& options : {MapOptions{}, MapOptions{.num_parallel_calls = 3}}) {
    DatasetIterator iterator = flawed(7, 3, {}, options).iterate();
    EXPECT_EQ(elements(iterator), (std::vector<Values>{{1}, {2}, {4}, {5}}));
    EXPECT_EQ(iterator.stats().skipped, 3);
  }
}

TEST(SkipBudget, BatchesAreFilledWithTheRowsThatDoNotFail) {
  EXPECT_EQ(elements(flawed(7, 3, {}).batch(3)), (std::vector<Values>{{1, 2, 4}, {5}}));
}

TEST(SkipBudget, EndsTheRunWhenMoreRowsFailThanMaxCount) {
  EXPECT_EQ(values(flawed(7, 3, {.max_count = 3})).size(), 4U);
  EXPECT_EQ(message_of<c10::ValueError>([] { values(flawed(7, 3, {.max_count = 2})); }),
            "map(flawed): 3 rows failed, but Skip(max_count=2) allows no more. The last error: "
            "map(flawed): element 6: row 6");
}

TEST(SkipBudget, EndsTheRunWhenALargerPartFailsThanMaxFractionFromAHundredRowsOn) {
  EXPECT_EQ(values(flawed(99, 3, {.max_fraction = 0.1}).take(66)).size(), 66U);
  EXPECT_EQ(values(flawed(400, 10, {.max_fraction = 0.11})).size(), 360U);
  const std::string message =
      message_of<c10::ValueError>([] { values(flawed(400, 3, {.max_fraction = 0.1})); });
  EXPECT_TRUE(has(message, "of 100 rows failed, but Skip(max_fraction=0.1)"));
}

TEST(SkipBudget, ChecksMaxFractionOnceMoreAtTheEndHoweverFewRowsThereAre) {
  for (const MapOptions& options : {MapOptions{}, MapOptions{.num_parallel_calls = 3}}) {
    EXPECT_EQ(values(flawed(50, 25, {.max_fraction = 0.04}, options)).size(), 48U);
    DatasetIterator iterator = flawed(50, 1, {.max_fraction = 0.01}, options).iterate();
    EXPECT_EQ(
        message_of<c10::ValueError>([&] { iterator.next(); }),
        "map(flawed): 50 of 50 rows failed, but Skip(max_fraction=0.01) allows no more. The last error: "
        "map(flawed): element 49: row 49");
  }
}

TEST(SkipBudget, TheEndOfADatasetThatAFunctionMakesIsNotTheEndOfTheData) {
  const Dataset parts = Dataset::range(4).flat_map([](Element) { return flawed(3, 3, {}); });
  EXPECT_EQ(values(parts.with_options(skipping({.max_fraction = 0.1}))).size(), 8U);
}

TEST(SkipBudget, TheCountGoesOnAfterARestart) {
  const Dataset dataset = flawed(9, 3, {.max_count = 2});
  DatasetIterator iterator = dataset.iterate({.epoch = 0, .seed = 1});
  for (int i = 0; i < 4; ++i) iterator.next();  // 0 and 3 were skipped
  DatasetIterator restarted = dataset.iterate({.epoch = 0, .seed = 1});
  restarted.load(iterator.save());
  EXPECT_THROW(elements(restarted), c10::ValueError);
}

TEST(SkipBudget, WithoutSkipTheFirstErrorIsRaised) {
  const auto fail = [](const Element&) -> Element { throw std::out_of_range("bad row"); };
  EXPECT_THROW(values(generated(3).map(fail)), UserCodeError);
}

TEST(SkipBudget, AnExceptionThatIsNotARowsFailureIsNotSkipped) {
  struct Interrupt {};
  const auto interrupt = [](const Element&) -> Element { throw Interrupt{}; };
  EXPECT_THROW(values(Dataset::range(3).map(interrupt).with_options(skipping())), Interrupt);
}

TEST(SkipBudget, ObeysTheResumeLaw) {
  EXPECT_NO_THROW(testing::assert_resumable(flawed(20, 3, {})));
  EXPECT_NO_THROW(testing::assert_resumable(flawed(20, 3, {}, {.num_parallel_calls = 3})));
}

}  // namespace
}  // namespace torch_distinput
