// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/simulation.h"

#include <cstdlib>
#include <numeric>

#include <gtest/gtest.h>

namespace torch_distinput::simulation {
namespace {

std::string trace(const Simulation& job) {
  std::string text;
  for (std::size_t rank = 0; rank < job.outcomes().size(); ++rank) {
    const Outcome& one = job.outcomes()[rank];
    text += "\n  rank " + std::to_string(rank) + ": met " + std::to_string(one.met) + ", steps " +
            std::to_string(one.steps) + (one.ended ? ", ended" : "") + (one.alive ? "" : ", dead") +
            ", error '" + one.error + "'";
  }
  return text;
}

TEST(Simulation, TheSameSeedIsTheSameRun) {
  Job job{.ranks = 6, .per_host = 3, .seed = 4, .steps = {3, 9, 4, 1, 0, 7}};
  Simulation one(job), other(job);
  one.run(), other.run();
  EXPECT_EQ(one.now(), other.now());
  EXPECT_EQ(one.costs().bytes, other.costs().bytes);
  EXPECT_EQ(trace(one), trace(other));
}

TEST(Simulation, AllRanksTakeTheStepsOfTheLongestStream) {
  Job job{.ranks = 5, .per_host = 2, .seed = 1, .steps = {3, 9, 4, 1, 0}};
  Simulation run(job);
  run.run();
  for (const Outcome& one : run.outcomes()) {
    EXPECT_TRUE(one.ended) << trace(run);
    EXPECT_EQ(one.steps, 9);
  }
}

}  // namespace
}  // namespace torch_distinput::simulation
