// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <random>

#include <gtest/gtest.h>

#include "distribute/multi_worker_testing.h"

namespace torch_distinput::distribute_testing {
namespace {

struct World {
  int ranks;
  std::int64_t per_rank;
};

/// An epoch as one rank saw it.
struct Epoch {
  Steps steps = {};
  std::vector<std::vector<std::int64_t>> valid = {};
  std::int64_t rounds = 0;
  std::optional<std::int64_t> announced = {};
};

std::vector<Epoch> run(const World& world, const Dataset& dataset, const InputOptions& options) {
  auto ranks = ranks_of(world.ranks, world.per_rank);
  return on_all(ranks, [&](std::int64_t, Rank& rank) {
    const DistributedDataset distributed = rank.distribute_dataset(dataset, options);
    DistributedIterator iterator = distributed.iterate();
    Epoch epoch{.announced = distributed.num_steps()};
    std::vector<State> saved;
    while (const auto step = iterator.next()) {
      epoch.steps.push_back(rows(*step));
      epoch.valid.push_back(step->info().valid);
      saved.push_back(iterator.save());
    }
    for (std::size_t i = 0; i < saved.size(); ++i) {
      EXPECT_EQ(iterator.state_at(static_cast<std::int64_t>(i) + 1), saved[i]) << "step " << i;
    }
    epoch.rounds = iterator.stats().rounds;
    return epoch;
  });
}

/// The rank and local replica that get part `part` of a step.
std::pair<std::size_t, std::size_t> owner(const World& world, Split split, std::size_t part) {
  const auto ranks = static_cast<std::size_t>(world.ranks);
  const auto per_rank = static_cast<std::size_t>(world.per_rank);
  // As recorded, tf.distribute assigns parts to ranks in turn; `balanced` keeps neighbours together.
  if (split == Split::kTf) return {part % ranks, part / ranks};
  return {part / per_rank, part % per_rank};
}

void expect_model(const World& world, const Pipeline& pipeline, const std::vector<Epoch>& by_rank) {
  const auto expected = pipeline.expected();
  for (const Epoch& epoch : by_rank) {
    ASSERT_EQ(epoch.steps.size(), expected.size());
    EXPECT_EQ(epoch.announced, std::ssize(expected));
    EXPECT_EQ(epoch.rounds, 0);
  }
  for (std::size_t step = 0; step < expected.size(); ++step) {
    for (std::size_t part = 0; part < expected[step].parts.size(); ++part) {
      const auto [rank, replica] = owner(world, pipeline.options.split, part);
      ASSERT_EQ(by_rank[rank].steps[step][replica], expected[step].parts[part]) << "part " << part;
      ASSERT_EQ(by_rank[rank].valid[step][replica], expected[step].valid[part]) << "part " << part;
    }
  }
}

void expect_every_row_once(std::int64_t n, const std::vector<Epoch>& by_rank) {
  Rows all;
  for (const Epoch& epoch : by_rank) {
    ASSERT_EQ(epoch.steps.size(), by_rank.front().steps.size());
    for (std::size_t step = 0; step < epoch.steps.size(); ++step)
      for (std::size_t replica = 0; replica < epoch.steps[step].size(); ++replica) {
        const Rows& part = epoch.steps[step][replica];
        all.insert(all.end(), part.begin(), part.begin() + epoch.valid[step][replica]);
      }
  }
  EXPECT_EQ(sorted(all), numbers(0, n));
}

class Worlds : public ::testing::TestWithParam<World> {};

TEST_P(Worlds, EveryRankTakesTheModelsStepsAndEveryRowReachesOneReplica) {
  const World world = GetParam();
  std::mt19937 random(17);
  for (const std::int64_t n : std::initializer_list<std::int64_t>{0, 1, world.ranks - 1, 7, 31, 97, 3000}) {
    for (const Tail tail :
         {Tail::kZeroRows, Tail::kPadded, Tail::kRepeat, Tail::kDrop, Tail::kUntilFirst, Tail::kMerge}) {
      for (const Split split : {Split::kTf, Split::kBalanced}) {
        Pipeline pipeline;
        pipeline.n = n;
        pipeline.batch = (n > 1000 ? 50 : 1) + static_cast<std::int64_t>(random() % 40);
        pipeline.replicas = world.ranks * world.per_rank;
        pipeline.options = {.split = split, .tail = tail};
        SCOPED_TRACE(pipeline.str());
        expect_model(world, pipeline, run(world, pipeline.dataset(), pipeline.options));
        if (tail != Tail::kZeroRows && tail != Tail::kPadded && tail != Tail::kMerge) continue;
        const Dataset shuffled = Dataset::range(n).shuffle().batch(pipeline.batch);
        expect_every_row_once(n, run(world, shuffled, pipeline.options));
      }
    }
  }
}

TEST(StateAt, WaitsForTheRanksSeed) {
  auto ranks = ranks_of(2);
  on_all(ranks, [](std::int64_t, Rank& rank) {
    const DistributedDataset distributed = rank.distribute_dataset(Dataset::range(8).shuffle().batch(2), {});
    DistributedIterator iterator = distributed.iterate();
    EXPECT_THROW(iterator.state_at(1), FailedPreconditionError);
    const State before = iterator.save();
    iterator.next();
    EXPECT_EQ(iterator.state_at(1), iterator.save());
    // A seed of the user's holds also where a state has none.
    DistributedIterator seeded = distributed.iterate({.seed = 1});
    seeded.load(before);
    EXPECT_EQ(seeded.state_at(0), seeded.save());
    return 0;
  });
}

TEST(StateAt, NeedsAStreamThatAllRanksShare) {
  auto ranks = ranks_of(2);
  const Dataset own = with_policy(Dataset::range(8).batch(2), AutoShardPolicy::kOff);
  on_all(ranks, [&](std::int64_t, Rank& rank) {
    DistributedIterator iterator = rank.distribute_dataset(own, {}).iterate({.seed = 1});
    EXPECT_THROW(iterator.state_at(0), c10::ValueError);
    return 0;
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Worlds,
                         ::testing::Values(World{1, 3}, World{2, 1}, World{2, 2}, World{3, 1}, World{3, 2},
                                           World{5, 1}, World{8, 1}));

}  // namespace
}  // namespace torch_distinput::distribute_testing
