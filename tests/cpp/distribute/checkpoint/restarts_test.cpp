// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "distribute/checkpoint/restarts_testing.h"

namespace torch_distinput::distribute_testing {
namespace {

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

/// Runs that are stopped and resumed in one world take the same steps as one run.
void go_on_in_the_same_world(std::uint32_t seed) {
  std::mt19937 random(seed);
  const Kitchen kitchen(random_recipe(random));
  const World world = random_world(random, kitchen.recipe(), static_cast<Tail>(draw(random, 0, 5)));
  SCOPED_TRACE(c10::str("seed ", seed, ": ", kitchen.recipe().str(), world.str()));
  expect_the_same_steps_after_restarts(kitchen, world, random);
}

TEST(Restarts, ARestartOnTheSameWorldChangesNothing) {
  for (std::uint32_t seed = 0; seed < trials(120) && !HasFailure(); ++seed) go_on_in_the_same_world(seed);
}

}  // namespace
}  // namespace torch_distinput::distribute_testing
