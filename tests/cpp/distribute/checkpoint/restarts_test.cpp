// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <gtest/gtest.h>

#include "distribute/checkpoint/restarts_testing.h"

namespace torch_distinput::distribute_testing {
namespace {

using Counts = std::map<std::int64_t, std::int64_t>;

/// `usual`, or the value of the environment variable `TDI_RESTARTS`.
std::uint32_t trials(std::uint32_t usual) {
  const char* const wanted = std::getenv("TDI_RESTARTS");
  return wanted == nullptr ? usual : static_cast<std::uint32_t>(std::stoul(wanted));
}

/// Checks that every rank took the same steps and that they begin where those before ended. Adds the rows
/// that count to `seen` and `total`.
void check_and_count(const std::vector<Leg>& legs, Counts& seen, std::int64_t& total) {
  for (const Leg& leg : legs) {
    ASSERT_EQ(leg.error, "");
    ASSERT_EQ(leg.steps.size(), legs.front().steps.size());
    ASSERT_EQ(leg.row_start, legs.front().row_start);
  }
  for (std::size_t step = 0; step < legs.front().steps.size(); ++step) {
    ASSERT_EQ(legs.front().row_start[step], total) << "step " << step;
    for (const Leg& leg : legs)
      for (std::size_t replica = 0; replica < leg.steps[step].size(); ++replica)
        for (std::int64_t i = 0; i < leg.valid[step][replica]; ++i, ++total)
          ++seen[leg.steps[step][replica].at(static_cast<std::size_t>(i))];
  }
}

/// The rows that were delivered more or less often than `tail` allows.
std::string differences(const Counts& wanted, const Counts& seen, Tail tail) {
  const bool may_miss = tail == Tail::kDrop || tail == Tail::kUntilFirst;
  std::string text;
  for (const auto& [row, count] : seen) {
    const auto found = wanted.find(row);
    const std::int64_t most = found == wanted.end() ? 0 : found->second;
    if (count > most && (most == 0 || tail != Tail::kRepeat)) text += " too often " + std::to_string(row);
  }
  for (const auto& [row, count] : wanted) {
    const auto found = seen.find(row);
    if (!may_miss && (found == seen.end() || found->second < count)) text += " lost " + std::to_string(row);
  }
  return text;
}

/// A chain of runs on different worlds, each but the last stopped after a few steps.
void go_from_world_to_world(std::uint32_t seed) {
  std::mt19937 random(seed);
  const Kitchen kitchen(random_recipe(random));
  const Recipe& recipe = kitchen.recipe();
  const auto tail = static_cast<Tail>(draw(random, 0, 5));
  const World first = random_world(random, recipe, tail);
  std::string trace = c10::str("seed ", seed, ": ", recipe.str());
  Counts seen;
  std::int64_t total = 0;
  std::vector<State> states;
  for (std::int64_t legs = draw(random, 2, 4); legs > 0; --legs) {
    World world = random_world(random, recipe, tail);
    if (!recipe.any_world_size()) world.ranks = first.ranks;
    world.alone = world.alone && world.ranks == 1;
    if (!recipe.any_batch()) world.batch = first.batch;
    const std::size_t most = legs == 1 ? 10'000 : static_cast<std::size_t>(draw(random, 0, 4));
    trace += world.str() + ", steps " + std::to_string(most);
    SCOPED_TRACE(trace);
    const auto run_of = run(kitchen, world, states, most);
    // More processes than saved streams share these batch by batch, so the batch size must stay.
    if (run_of.front().error.find("of batches of") != std::string::npos && recipe.files()) return;
    ASSERT_NO_FATAL_FAILURE(check_and_count(run_of, seen, total));
    // As recorded, data that counts as endless (batches after SHARD_HINT may) ends where a part is missing.
    if (!run_of.front().completes) return;
    states = states_of(run_of);
  }
  EXPECT_EQ(differences(kitchen.counts(first.ranks), seen, tail), "") << trace;
}

TEST(Restarts, EveryRowOnceAcrossRestartsOnOtherWorlds) {
  for (std::uint32_t seed = 0; seed < trials(120) && !HasFailure(); ++seed) go_from_world_to_world(seed);
}

template <class T>
std::vector<T> from(const std::vector<T>& all, std::size_t first) {
  return {all.begin() + static_cast<std::ptrdiff_t>(first), all.end()};
}

/// Runs that are stopped and resumed in one world take the same steps as one run.
void go_on_in_the_same_world(std::uint32_t seed) {
  std::mt19937 random(seed);
  const Kitchen kitchen(random_recipe(random));
  const World world = random_world(random, kitchen.recipe(), static_cast<Tail>(draw(random, 0, 5)));
  SCOPED_TRACE(c10::str("seed ", seed, ": ", kitchen.recipe().str(), world.str()));
  const auto whole = run(kitchen, world, {}, 10'000);
  const std::size_t steps = whole.front().steps.size();
  const auto cut = static_cast<std::size_t>(draw(random, 0, static_cast<std::int64_t>(steps)));
  const auto again = cut + static_cast<std::size_t>(draw(random, 0, static_cast<std::int64_t>(steps - cut)));
  const auto one = run(kitchen, world, {}, cut);
  const auto two = run(kitchen, world, states_of(one), again - cut);
  const auto rest = run(kitchen, world, states_of(two), 10'000);
  for (std::size_t rank = 0; rank < whole.size(); ++rank) {
    SCOPED_TRACE(c10::str("rank ", rank, ", stopped after ", cut, " and ", again, " of ", steps, " steps"));
    EXPECT_EQ(rest[rank].error, "");
    ASSERT_EQ(rest[rank].steps, from(whole[rank].steps, again));
    ASSERT_EQ(rest[rank].valid, from(whole[rank].valid, again));
    ASSERT_EQ(rest[rank].has_value, from(whole[rank].has_value, again));
    ASSERT_EQ(rest[rank].row_start, from(whole[rank].row_start, again));
  }
}

TEST(Restarts, ARestartOnTheSameWorldChangesNothing) {
  for (std::uint32_t seed = 0; seed < trials(120) && !HasFailure(); ++seed) go_on_in_the_same_world(seed);
}

}  // namespace
}  // namespace torch_distinput::distribute_testing
