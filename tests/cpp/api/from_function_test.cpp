// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

using distribute_testing::replicas;
using distribute_testing::steps;
using distribute_testing::Steps;

Dataset batches(std::int64_t rows) { return Dataset::range(rows).batch(2); }

TEST(FromFunction, ElementsGoToTheReplicasInTurn) {
  const auto dataset = replicas(3).distribute_datasets_from_function([](const InputContext& context) {
    EXPECT_EQ(context, (InputContext{1, 0, 3}));
    return batches(9);
  });
  EXPECT_EQ(steps(dataset), (Steps{{{0, 1}, {2, 3}, {4, 5}}, {{6, 7}, {8}, {}}}));
  EXPECT_EQ(dataset.num_steps(), 2);
  EXPECT_EQ(dataset.cardinality(), 5);
}

TEST(FromFunction, EachReplicaMayReadItsOwnDataset) {
  const auto dataset = replicas(2).distribute_datasets_from_function(
      [](const InputContext& context) { return batches(context.input_pipeline_id == 0 ? 3 : 6).shard(1, 0); },
      {.replication_mode = ReplicationMode::kPerReplica});
  EXPECT_EQ(steps(dataset), (Steps{{{0, 1}, {0, 1}}, {{2}, {2, 3}}, {{}, {4, 5}}}));
  EXPECT_EQ(dataset.num_steps(), 3);
  EXPECT_EQ(dataset.cardinality(), 2);
}

TEST(FromFunction, AnyPositionOfPipelinesCanBeResumed) {
  const auto dataset = replicas(2).distribute_datasets_from_function(
      [](const InputContext& context) {
        return Dataset::range(4 + 3 * context.input_pipeline_id).filter([](const Element&) { return true; });
      },
      {.replication_mode = ReplicationMode::kPerReplica});
  DistributedIterator iterator = dataset.iterate({.epoch = 0});
  std::vector<State> states{iterator.save()};
  while (iterator.get_next_as_optional().has_value()) states.push_back(iterator.save());
  ASSERT_EQ(states.size(), 8U);
  for (std::size_t taken = 0; taken < states.size(); ++taken) {
    DistributedIterator resumed = dataset.iterate({.epoch = 0});
    resumed.load(states[taken]);
    std::size_t left = 0;
    while (resumed.get_next_as_optional().has_value()) ++left;
    EXPECT_EQ(left, states.size() - 1 - taken);
    EXPECT_EQ(resumed.save(), states.back());
  }
}

TEST(FromFunction, OneDeviceHasOnePipeline) {
  const OneDeviceStrategy strategy("cpu");
  EXPECT_EQ(steps(strategy.distribute_datasets_from_function([](const InputContext&) { return batches(3); })),
            (Steps{{{0, 1}}, {{2}}}));
  EXPECT_THROW(strategy.distribute_datasets_from_function([](const InputContext&) { return batches(3); },
                                                          {.replication_mode = ReplicationMode::kPerReplica}),
               c10::NotImplementedError);
}

TEST(FromFunction, PlacementFollowsTheOriginalsTable) {
  const auto outcome = [](InputOptions options) {
    return message_of<c10::ValueError>([&] {
      replicas(2).distribute_datasets_from_function([](const InputContext&) { return batches(3); }, options);
    });
  };
  EXPECT_TRUE(has(outcome({.place_dataset_on_device = true}), "needs `replication_mode`"));
  EXPECT_TRUE(
      has(outcome({.replication_mode = ReplicationMode::kPerReplica, .place_dataset_on_device = true}),
          "while `fetch_to_device` is True"));
}

TEST(InputContext, DividesTheGlobalBatch) {
  const InputContext context{2, 1, 6};
  EXPECT_EQ(context.get_per_replica_batch_size(12), 2);
  EXPECT_EQ(message_of<c10::ValueError>([&] { context.get_per_replica_batch_size(13); }),
            "The `global_batch_size` 13 is not divisible by `num_replicas_in_sync` 6 ");
  EXPECT_EQ(context.str(), "tf.distribute.InputContext(input pipeline id 1, total: 2)");
}

TEST(ValuesFromFunction, AreMadeInOrder) {
  const PerReplica values = replicas(2).distribute_values_from_function([](const ValueContext& context) {
    EXPECT_EQ(context.num_replicas_in_sync, 2);
    return Element(at::scalar_tensor(context.replica_id_in_sync_group));
  });
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[0].tensor().item<std::int64_t>(), 0);
  EXPECT_EQ(values[1].tensor().item<std::int64_t>(), 1);
}

}  // namespace
}  // namespace torch_distinput
