// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/checkpoint/saved_position.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "distribute/multi_worker_testing.h"
#include "io/sample_files.h"
#include "support/errors.h"
#include "torch_distinput/files.h"

namespace torch_distinput::distribute_testing {
namespace {

using SavedPosition = files_testing::InFolder;

/// The rows that the ranks of one run delivered, and their states afterwards.
struct Run {
  Rows rows;
  std::vector<std::size_t> steps;  // of each rank
  std::vector<std::int64_t> row_start;
  std::vector<State> states;
};

/// Runs `num_ranks` ranks from `states`, or from the start if there are none, for at most `most` steps.
Run run(const Dataset& dataset, int num_ranks, const std::vector<State>& states, std::size_t most,
        const InputOptions& options = {}) {
  auto ranks = ranks_of(num_ranks);
  const auto all = on_all(ranks, [&](std::int64_t, Rank& rank) {
    DistributedIterator iterator = rank.distribute_dataset(dataset, options).iterate();
    if (!states.empty()) iterator.load(State(State::List(states.begin(), states.end())));
    Run own;
    own.steps.push_back(0);
    while (own.steps.front() < most) {
      const auto step = iterator.next();
      if (!step) break;
      ++own.steps.front();
      own.row_start.push_back(step->info().row_start);
      for (const Rows& part : rows(*step)) own.rows.insert(own.rows.end(), part.begin(), part.end());
    }
    own.states.push_back(iterator.save());
    return own;
  });
  Run together;
  for (const Run& own : all) {
    together.rows.insert(together.rows.end(), own.rows.begin(), own.rows.end());
    together.steps.push_back(own.steps.front());
    together.states.push_back(own.states.front());
    EXPECT_EQ(own.row_start, all.front().row_start);
  }
  if (!all.front().row_start.empty()) together.row_start = all.front().row_start;
  return together;
}

/// The lines of text files of `sizes` lines as int64 rows, numbered through all files.
Dataset numbered_lines(const files_testing::Folder& folder, const std::vector<std::int64_t>& sizes,
                       bool indexed) {
  std::vector<std::string> names;
  std::int64_t number = 0;
  for (const std::int64_t size : sizes) {
    std::string lines;
    for (std::int64_t i = 0; i < size; ++i) lines += std::to_string(number++) + "\n";
    names.push_back(folder.write(std::to_string(names.size()), lines));
  }
  return TextLineDataset(names, {.index = indexed}).map([](const Element& line) {
    const auto& bytes = std::get<Bytes>(line.leaves().front());
    return Element(at::full({}, std::stoll(std::string(bytes[0])), at::kLong));
  });
}

/// Runs a chain of `worlds`, each but the last stopped after a few steps, and checks their rows.
void expect_exactly_once(const Dataset& dataset, std::int64_t count, const std::vector<int>& worlds,
                         std::mt19937& random, const InputOptions& options = {}) {
  Rows seen;
  std::vector<State> states;
  for (std::size_t i = 0; i < worlds.size(); ++i) {
    const bool last = i + 1 == worlds.size();
    const Run part = run(dataset, worlds[i], states, last ? 10'000 : random() % 4, options);
    for (const auto steps : part.steps) EXPECT_EQ(steps, part.steps.front());
    if (!part.row_start.empty()) {
      EXPECT_EQ(part.row_start.front(), std::ssize(seen));
    }
    seen.insert(seen.end(), part.rows.begin(), part.rows.end());
    states = part.states;
  }
  EXPECT_EQ(sorted(seen), numbers(0, count));
}

TEST_F(SavedPosition, FilesContinueExactlyOnceOnOtherNumbersOfRanks) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<std::int64_t> sizes(5 + random() % 4);
    for (auto& size : sizes) size = static_cast<std::int64_t>(random() % 12);
    const std::int64_t count = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    const files_testing::Folder folder;
    Dataset dataset = numbered_lines(folder, sizes, trial % 4 < 2);
    if (trial % 3 == 1) dataset = dataset.shuffle({.buffer_size = 4});
    if (trial % 3 == 2) dataset = dataset.filter([](const Element&) { return true; });
    std::vector<int> worlds(2 + random() % 3);
    for (auto& world : worlds) world = 1 + static_cast<int>(random() % 5);
    InputOptions options;
    options.split = trial % 2 == 0 ? Split::kTf : Split::kBalanced;
    options.per_replica_buffer_size = static_cast<std::int64_t>(random() % 3);
    expect_exactly_once(dataset.batch(1 + static_cast<std::int64_t>(random() % 5)), count, worlds, random,
                        options);
  }
}

// After a map the batch size is not known, so each batch is cut into parts for the replicas of all ranks.
TEST_F(SavedPosition, FilesContinueBetweenThePartsOfABatch) {
  for (const bool indexed : {false, true}) {
    const files_testing::Folder folder;
    const Dataset dataset = numbered_lines(folder, {8, 8, 8, 8}, indexed).batch(4).map(same);
    for (const std::size_t steps : {1U, 2U, 3U}) {
      const auto first = run(dataset, 4, {}, steps);
      for (const int num_ranks : {1, 2, 3, 8}) {
        Rows all = run(dataset, num_ranks, first.states, 10'000).rows;
        all.insert(all.end(), first.rows.begin(), first.rows.end());
        EXPECT_EQ(sorted(all), numbers(0, 32)) << steps << " steps, " << num_ranks;
      }
    }
  }
}

TEST_F(SavedPosition, FilesContinueUnderAnotherPolicy) {
  const Dataset dataset = numbered_lines(folder_, {5, 9, 3}, false).batch(2);
  const auto first = run(dataset, 2, {}, 2);
  Rows all = run(with_policy(dataset, AutoShardPolicy::kData), 3, first.states, 10'000).rows;
  all.insert(all.end(), first.rows.begin(), first.rows.end());
  EXPECT_EQ(sorted(all), numbers(0, 17));
}

std::string load_error(const Dataset& dataset, int num_ranks, const State& state) {
  auto ranks = ranks_of(num_ranks);
  DistributedIterator iterator = ranks[0].distribute_dataset(dataset).iterate();
  return message_of<c10::ValueError>([&] { iterator.load(state); });
}

TEST_F(SavedPosition, AStateOfOneOfSeveralRanksIsNotEnoughForAnotherNumber) {
  const Dataset dataset = numbered_lines(folder_, {4, 4, 4, 4}, false).batch(2);
  const std::vector<State> states = run(dataset, 2, {}, 2).states;
  EXPECT_TRUE(has(load_error(dataset, 3, states[1]),
                  "saved by rank 1 of 2, but here there are 3 ranks; pass the states of all ranks"));
  EXPECT_TRUE(has(load_error(dataset, 2, states[1]), "saved by rank 1 of 2, but this is rank 0"));
  EXPECT_TRUE(
      has(load_error(dataset, 3, State(State::List{states[1]})), "the list has no state of rank 0 of 2"));
  EXPECT_TRUE(has(load_error(dataset, 3, State(State::List{states[1], states[1]})), "two of rank 1 of 2"));
}

TEST_F(SavedPosition, NumbersOutOfRangeAreRefusedByName) {
  const Dataset dataset = numbered_lines(folder_, {4, 4, 4, 4}, false).batch(2);
  const State state = run(dataset, 2, {}, 2).states[0];
  const auto refusal = [&](const char* field, const State& value) {
    return load_error(dataset, 2, State(State::List{State(state).set(field, value)}));
  };
  EXPECT_TRUE(has(refusal("workers", 1'000'000'000), "the list has no state of rank 1 of 1000000000"));
  EXPECT_TRUE(has(refusal("workers", -5), "the saved `workers` must be in [1, "));
  EXPECT_TRUE(has(refusal("worker", 2), "the saved `worker` must be in [0, 1], but is 2"));
  EXPECT_TRUE(
      has(load_error(dataset, 2, State(state).set("rest", 3)), "the saved `rest` must be a list, but is 3"));
  const std::vector<State> shared = run(Dataset::range(24).batch(4), 2, {}, 2).states;
  const auto cursor_refusal = [&](const char* field, std::int64_t value) {
    State iterator = shared[0].at("cursor");
    return load_error(Dataset::range(24).batch(4), 2,
                      State(shared[0]).set("cursor", iterator.set(field, value)));
  };
  EXPECT_TRUE(has(cursor_refusal("part", 2), "the saved `part` must be in [0, 1], but is 2"));
  EXPECT_TRUE(has(cursor_refusal("part", -1), "`part`"));
  EXPECT_TRUE(has(cursor_refusal("row", 9), "the saved `row` must be in [0, 8], but is 9"));
}

// Several processes agree on a seed at their first step; a process alone keeps the seed that it drew.
TEST_F(SavedPosition, AProcessAloneThatResumesBeforeTheFirstStepSavesItsSeed) {
  const Dataset dataset = Dataset::range(20).shuffle().batch(4);
  const State before = run(dataset, 2, {}, 0).states[0];
  EXPECT_TRUE(before.at("seed").is_null());
  DistributedIterator alone = replicas(2).distribute_dataset(dataset).iterate();
  alone.load(before);
  alone.next();
  EXPECT_FALSE(alone.save().at("seed").is_null());
}

TEST_F(SavedPosition, BatchesThatRanksShareMustKeepTheirSize) {
  const Dataset rows = numbered_lines(folder_, {4, 4, 4, 4}, false);
  const std::vector<State> one = run(rows.batch(2), 1, {}, 1).states;
  const std::vector<State> three = run(rows.batch(2), 3, one, 1).states;
  for (const int num_ranks : {1, 2, 3, 4}) {
    EXPECT_TRUE(has(load_error(rows.batch(4), num_ranks, State(State::List(three.begin(), three.end()))),
                    "`rest(shared) of batches of 2`, but here it is `rest(shared) of batches of 4`"));
  }
}

TEST_F(SavedPosition, StatesOfDifferentStepsAreRefused) {
  const Dataset dataset = numbered_lines(folder_, {4, 4, 4, 4}, false).batch(2);
  const State early = run(dataset, 2, {}, 1).states[0];
  const State late = run(dataset, 2, {}, 2).states[1];
  EXPECT_TRUE(has(load_error(dataset, 3, State(State::List{early, late})),
                  "saved after the same step, but `step` is 1 in that of rank 0 and 2 in that of rank 1"));
}

TEST_F(SavedPosition, PoliciesOffAndHintRefuseAnotherNumberOfRanks) {
  const Dataset shared = Dataset::range(24).batch(4);
  const Dataset hinted = Dataset::range(24).shard(kShardHint, 0).batch(4);
  for (const auto& [dataset, policy] :
       {std::pair(shared, AutoShardPolicy::kOff), std::pair(hinted, AutoShardPolicy::kHint)}) {
    const Dataset set = with_policy(dataset, policy);
    const std::vector<State> states = run(set, 2, {}, 1).states;
    EXPECT_TRUE(has(load_error(set, 3, State(State::List(states.begin(), states.end()))),
                    "saved by 2 ranks, but here there are 3. With policy " +
                        std::string(policy == AutoShardPolicy::kOff ? "OFF" : "HINT")));
    EXPECT_EQ(run(set, 2, states, 100).steps.size(), 2U);  // the same number of ranks may continue
  }
}

}  // namespace
}  // namespace torch_distinput::distribute_testing
