// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/strategy.h"

#include <limits>

#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"
#include "support/errors.h"
#include "torch_distinput/part_strategy.h"

namespace torch_distinput {
namespace {

using distribute_testing::replicas;

TEST(Strategy, SeveralReplicasMayShareTheCpu) {
  const MirroredStrategy strategy({"cpu", "cpu", "cpu"});
  EXPECT_EQ(strategy.num_replicas_in_sync(), 3);
  EXPECT_EQ(strategy.num_input_pipelines(), 1);
  EXPECT_EQ(strategy.input_pipeline_id(), 0);
  EXPECT_TRUE(strategy.wraps());
  EXPECT_TRUE(strategy.enable_partial_batch_handling);
}

TEST(Strategy, OneDeviceGivesPlainValues) {
  const OneDeviceStrategy strategy("cpu");
  EXPECT_FALSE(strategy.wraps());
  EXPECT_FALSE(strategy.enable_partial_batch_handling);
}

TEST(Strategy, WithoutDevicesTakesAllThereAre) { EXPECT_GE(MirroredStrategy().num_replicas_in_sync(), 1); }

TEST(Strategy, RefusesDevicesThatDoNotExist) {
  const std::string message = message_of<c10::ValueError>([] { MirroredStrategy({"cpu", "cuda:99"}); });
  EXPECT_TRUE(has(message, "MirroredStrategy: device 'cuda:99' does not exist: torch sees"));
  EXPECT_THROW(OneDeviceStrategy("gpu:0"), c10::ValueError);
  EXPECT_THROW(OneDeviceStrategy("meta"), c10::ValueError);
}

std::string refusal(InputOptions options) {
  return message_of<c10::ValueError>(
      [&] { replicas(2).distribute_dataset(Dataset::range(8).batch(4), std::move(options)); });
}

TEST(Strategy, OptionsWithoutAMeaningAreRefusedByName) {
  EXPECT_TRUE(has(refusal({.per_replica_buffer_size = -1}), "`per_replica_buffer_size`"));
  EXPECT_TRUE(has(refusal({.peer_timeout = 0}), "`peer_timeout`"));
  EXPECT_TRUE(has(refusal({.weights = std::vector<double>{1, 1}}), "`split` \"balanced\""));
  const auto weights = [](std::vector<double> values) {
    return refusal({.split = Split::kBalanced, .weights = std::move(values)});
  };
  EXPECT_TRUE(has(weights({1}), "must be 2 numbers"));
  EXPECT_TRUE(has(weights({1, 0}), "must be positive"));
  EXPECT_TRUE(has(weights({1, std::numeric_limits<double>::infinity()}), "must be positive"));
}

TEST(Strategy, ReplicationPerReplicaIsForFunctions) {
  EXPECT_THROW(replicas(2).distribute_dataset(Dataset::range(8).batch(4),
                                              {.replication_mode = ReplicationMode::kPerReplica}),
               c10::NotImplementedError);
}

TEST(Strategy, ElementsWithoutRowsAreRefusedWhenDistributing) {
  EXPECT_THROW(replicas(2).distribute_dataset(Dataset::range(6)), c10::ValueError);
  EXPECT_NO_THROW(replicas(1).distribute_dataset(Dataset::range(6)));
}

TEST(PartStrategy, PartsOfProcessesAreThoseOfReplicas) {
  const Dataset batches = Dataset::range(23).shuffle({.seed = 3}).batch(5);
  for (std::int64_t count = 1; count <= 7; ++count) {
    const MirroredStrategy together(std::vector<std::string>(static_cast<std::size_t>(count), "cpu"));
    for (std::int64_t index = 0; index < count; ++index) {
      const PartStrategy alone(index, count, {"cpu"});
      DistributedIterator own = alone.distribute_dataset(batches).iterate();
      for (const PerReplica& step : together.distribute_dataset(batches)) {
        const auto part = own.next();
        ASSERT_TRUE(part.has_value());
        const auto place = static_cast<std::size_t>(index);
        EXPECT_TRUE(at::equal((*part)[0].tensor(), step[place].tensor()));
        EXPECT_EQ(part->info().valid[0], step.info().valid[place]);
        EXPECT_EQ(part->info().num_replicas, count);
      }
      EXPECT_FALSE(own.next().has_value());
    }
  }
}

TEST(PartStrategy, APartHasAnIndexBelowTheCount) {
  EXPECT_THROW(PartStrategy(2, 2, {"cpu"}), c10::ValueError);
  EXPECT_THROW(PartStrategy(-1, 2, {"cpu"}), c10::ValueError);
}

}  // namespace
}  // namespace torch_distinput
