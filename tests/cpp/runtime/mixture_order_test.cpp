// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/mixture_order.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

using Counts = std::vector<std::int64_t>;
using Place = MixtureOrder::Place;

struct Mixture {
  std::vector<double> weights;
  Counts sizes;
};

MixtureOrder order_of(std::vector<double> weights, std::uint64_t key) {
  return {{{0, std::move(weights)}}, key};
}

Mixture random_mixture(std::mt19937_64& random) {
  Mixture mixture;
  const std::size_t inputs = 1 + random() % 9;
  for (std::size_t i = 0; i < inputs; ++i) {
    const auto kind = random() % 5;
    const double weight = kind == 0 ? 0 : kind == 1 ? 1 : std::exp(static_cast<double>(random() % 100) / 20);
    mixture.weights.push_back(weight);
    mixture.sizes.push_back(static_cast<std::int64_t>(random() % (random() % 3 == 0 ? 3 : 200)));
  }
  return mixture;
}

/// The order of a mixture whose inputs are found to have ended when they are drawn.
std::vector<Place> as_they_end(MixtureOrder& order, const Counts& sizes) {
  std::vector<Place> places;
  while (!order.ends_before(std::ssize(places))) {
    const Place place = order.locate(std::ssize(places));
    if (place.number == sizes[place.input])
      order.end(std::ssize(places));
    else
      places.push_back(place);
  }
  return places;
}

TEST(MixtureOrderTest, DrawsEachElementOnceAndInOrderAlsoWhereSizesAreKnownBefore) {
  std::mt19937_64 random(5);
  for (std::uint64_t key = 0; key < 400; ++key) {
    const Mixture mixture = random_mixture(random);
    MixtureOrder found = order_of(mixture.weights, key);
    MixtureOrder known = order_of(mixture.weights, key);
    const std::vector<Place> places = as_they_end(found, mixture.sizes);
    ASSERT_EQ(known.end_all(mixture.sizes), std::ssize(places));
    Counts counts(mixture.weights.size(), 0);
    for (std::int64_t position = 0; position <= std::ssize(places); ++position) {
      ASSERT_EQ(known.counts(position), counts);
      ASSERT_EQ(known.ends_before(position), position == std::ssize(places));
      if (known.ends_before(position)) break;
      const Place place = places[static_cast<std::size_t>(position)];
      ASSERT_EQ(place, known.locate(position));
      ASSERT_EQ(place.number, counts[place.input]++);
    }
    for (std::size_t i = 0; i < counts.size(); ++i)
      ASSERT_EQ(counts[i], mixture.weights[i] == 0 ? 0 : mixture.sizes[i]);
  }
}

TEST(MixtureOrderTest, LocatesRunsAsOneByOne) {
  std::mt19937_64 random(8);
  for (std::uint64_t key = 0; key < 200; ++key) {
    const Mixture mixture = random_mixture(random);
    MixtureOrder order = order_of(mixture.weights, key);
    const auto size = static_cast<std::uint64_t>(order.end_all(mixture.sizes));
    const std::uint64_t begin = random() % (size + 1);
    const std::uint64_t count = random() % (size - begin + 1);
    std::vector<Place> found(count, Place{99, -1});
    order.locate_run(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(count),
                     [&](std::size_t input, std::int64_t first, std::span<const std::int64_t> offsets) {
                       for (const std::int64_t offset : offsets)
                         found[static_cast<std::size_t>(offset)] = {input, first++};
                     });
    for (std::uint64_t i = 0; i < count; ++i)
      ASSERT_EQ(found[i], order.locate(static_cast<std::int64_t>(begin + i)));
  }
}

TEST(MixtureOrderTest, KeepsTheShareOfEveryPrefixWithinAFewElements) {
  std::mt19937_64 random(6);
  double most = 0;
  for (std::uint64_t key = 0; key < 200; ++key) {
    const std::vector<double> weights = random_mixture(random).weights;
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (sum == 0) continue;
    const MixtureOrder order = order_of(weights, key);
    for (std::int64_t position = 0; position < 2000; ++position) {
      const Counts counts = order.counts(position);
      for (std::size_t i = 0; i < counts.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(counts[i]) -
                                       weights[i] / sum * static_cast<double>(position)));
    }
  }
  EXPECT_LE(most, 2.5);
}

TEST(MixtureOrderTest, KeepsTheSharesOfThoseThatAreLeft) {
  const std::vector<double> weights = {5, 1, 3, 2};
  MixtureOrder order = order_of(weights, 4);
  order.end_all(Counts{50, kNever, kNever, kNever});
  const Counts before = order.counts(1000);
  const Counts after = order.counts(7000);
  EXPECT_EQ(after[0], 50);
  EXPECT_NEAR(static_cast<double>(after[1] - before[1]), 1000, 3);
  EXPECT_NEAR(static_cast<double>(after[2] - before[2]), 3000, 3);
  EXPECT_NEAR(static_cast<double>(after[3] - before[3]), 2000, 3);
}

TEST(MixtureOrderTest, IsSureOfTheElementsBeforeAnyInputCanEnd) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    const Mixture mixture = random_mixture(random);
    const std::int64_t sure = order_of(mixture.weights, 0).sure_length(mixture.sizes);
    std::int64_t least_spare = kNever;
    for (std::uint64_t key = 0; key < 20; ++key) {
      const Counts counts = order_of(mixture.weights, key).counts(sure);
      for (std::size_t input = 0; input < counts.size(); ++input) {
        ASSERT_LE(counts[input], mixture.sizes[input]);
        if (mixture.weights[input] > 0)
          least_spare = std::min(least_spare, mixture.sizes[input] - counts[input]);
      }
    }
    if (least_spare != kNever) {
      ASSERT_LE(least_spare, 3);
    }
  }
}

TEST(MixtureOrderTest, HoldsAHundredInputsOfABillionElements) {
  const std::vector<double> weights(100, 1.0);
  const Counts sizes(100, 1'000'000'000);
  MixtureOrder order = order_of(weights, 1);
  const std::int64_t size = order.end_all(sizes);
  EXPECT_EQ(size, 100'000'000'000);
  EXPECT_EQ(order.counts(size), sizes);
  for (const std::int64_t count : order.counts(size / 2)) EXPECT_NEAR(static_cast<double>(count), 5e8, 4);
  EXPECT_NEAR(static_cast<double>(order_of(weights, 1).sure_length(sizes)), 1e11, 200);
}

TEST(MixtureOrderTest, IsSureOfAllElementsOfEqualInputs) {
  for (const std::size_t inputs : {1U, 2U, 3U, 4U, 8U}) {
    MixtureOrder order = order_of(std::vector<double>(inputs, 0.3), 1);
    EXPECT_EQ(order.sure_length(Counts(inputs, 10)), 10 * static_cast<std::int64_t>(inputs));
  }
}

TEST(MixtureOrderTest, ManagesWeightsOfAnySize) {
  const std::vector<double> weights = {1e308, 1e308, 5e-324, 5e-324, 1};
  EXPECT_EQ(order_of(weights, 1).end_all(Counts{3, 4, 2, 1, 5}), 15);
  EXPECT_EQ(order_of(weights, 1).end_all(Counts{3, kNever, 2, 1, 5}), kNever);
  EXPECT_EQ(order_of({}, 1).end_all({}), 0);
}

/// Inputs of random sizes, and weights that change at up to four positions, at each of which one input has
/// weight.
struct Schedule {
  std::vector<WeightsFromPosition> weights;
  Counts sizes;
};

Schedule random_schedule(std::mt19937_64& random) {
  const std::size_t inputs = 1 + random() % 6;
  Schedule schedule;
  std::int64_t position = 0;
  for (std::size_t entries = 1 + random() % 4; entries > 0; --entries) {
    std::vector<double> weights;
    for (std::size_t i = 0; i < inputs; ++i)
      weights.push_back(random() % 3 == 0 ? 0 : std::exp(static_cast<double>(random() % 60) / 20));
    weights[random() % inputs] = 1;
    schedule.weights.push_back({position, weights});
    position += 1 + static_cast<std::int64_t>(random() % 150);
  }
  for (std::size_t i = 0; i < inputs; ++i)
    schedule.sizes.push_back(static_cast<std::int64_t>(random() % (random() % 3 == 0 ? 3 : 200)));
  return schedule;
}

TEST(MixtureOrderTest, ChangesWeightsAlsoWhereSizesAreKnownBefore) {
  std::mt19937_64 random(9);
  for (std::uint64_t key = 0; key < 400; ++key) {
    const Schedule schedule = random_schedule(random);
    MixtureOrder found(schedule.weights, key);
    MixtureOrder known(schedule.weights, key);
    const std::int64_t size = known.end_all(schedule.sizes);
    Counts counts(schedule.sizes.size(), 0);
    std::int64_t position = 0;
    for (found.reach(position); !found.ends_before(position); found.reach(position)) {
      ASSERT_EQ(known.counts(position), counts);
      const Place place = found.locate(position);
      if (place.number == schedule.sizes[place.input]) {
        found.end(position);
        continue;
      }
      ASSERT_FALSE(known.ends_before(position));
      ASSERT_EQ(place, known.locate(position++));
      ASSERT_EQ(place.number, counts[place.input]++);
    }
    ASSERT_EQ(position, size);
    ASSERT_TRUE(known.ends_before(size));
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (schedule.weights.back().weights[i] > 0) {
        ASSERT_EQ(counts[i], schedule.sizes[i]);
      }
    }
  }
}

TEST(MixtureOrderTest, KeepsTheSharesOfTheWeightsThatHold) {
  MixtureOrder order({{0, {1, 3, 0}}, {1000, {0, 1, 1}}, {5000, {2, 1, 1}}}, 3);
  order.end_all(Counts(3, kNever));
  const std::vector<std::pair<std::int64_t, std::vector<double>>> expected = {
      {400, {100, 300, 0}}, {1000, {250, 750, 0}}, {3000, {250, 1750, 1000}}, {9000, {2250, 3750, 3000}}};
  for (const auto& [position, counts] : expected) {
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(static_cast<double>(order.counts(position)[i]), counts[i], 3) << position;
  }
}

TEST(MixtureOrderTest, IsSureOfTheElementsBeforeAnyInputCanEndAlsoWhereWeightsChange) {
  std::mt19937_64 random(10);
  for (int i = 0; i < 300; ++i) {
    const Schedule schedule = random_schedule(random);
    const std::int64_t sure = MixtureOrder(schedule.weights, 0).sure_length(schedule.sizes);
    ASSERT_NE(sure, kNever);
    std::int64_t least_spare = kNever;
    for (std::uint64_t key = 0; key < 20; ++key) {
      MixtureOrder order(schedule.weights, key);
      order.reach(sure);
      const Counts counts = order.counts(sure);
      for (std::size_t input = 0; input < counts.size(); ++input) {
        ASSERT_LE(counts[input], schedule.sizes[input]);
        least_spare = std::min(least_spare, schedule.sizes[input] - counts[input]);
      }
    }
    ASSERT_LE(least_spare, 16);
  }
}

}  // namespace
}  // namespace torch_distinput
