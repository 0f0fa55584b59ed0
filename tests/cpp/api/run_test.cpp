// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "torch_distinput/error.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {
namespace {

const MirroredStrategy& three() {
  static const MirroredStrategy strategy({"cpu", "cpu", "cpu"});
  return strategy;
}

TEST(Run, EachReplicaGetsItsPartAndTheOtherArguments) {
  for (const PerReplica& batch : three().distribute_dataset(Dataset::range(7).batch(7))) {
    const std::vector<std::int64_t> sums = three().run(
        [](const ReplicaContext& context, const Element& part, std::int64_t offset) {
          EXPECT_EQ(get_replica_context(), &context);
          EXPECT_EQ(context.num_replicas_in_sync(), 3);
          return part.tensor().sum().item<std::int64_t>() + offset * context.replica_id_in_sync_group();
        },
        batch, std::int64_t{100});
    EXPECT_EQ(sums, (std::vector<std::int64_t>{0 + 1 + 2, 3 + 4 + 5 + 100, 6 + 200}));
  }
  EXPECT_EQ(get_replica_context(), nullptr);
}

TEST(Run, ReplicasRunInThreadsOfTheirOwnThatAreKept) {
  const auto ids = [] { return three().run([] { return std::this_thread::get_id(); }); };
  const auto first = ids();
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 3U);
  EXPECT_EQ(std::set(first.begin(), first.end()).count(std::this_thread::get_id()), 0U);
  EXPECT_EQ(ids(), first);
}

TEST(Run, TheCallersGradModeHolds) {
  const auto modes = [] { return three().run([] { return at::GradMode::is_enabled(); }); };
  EXPECT_EQ(modes(), std::vector<bool>(3, true));
  const at::NoGradGuard none;
  EXPECT_EQ(modes(), std::vector<bool>(3, false));
}

TEST(Run, AllErrorsAreReported) {
  const auto fail = [](const ReplicaContext& context) {
    if (context.local_replica() == 1) throw std::runtime_error("one");
    if (context.local_replica() == 2) TORCH_CHECK(false, "two");
  };
  try {
    three().run(fail);
    FAIL() << "nothing was thrown";
  } catch (const ReplicaError& error) {
    EXPECT_STREQ(error.what_without_backtrace(), "run: of 3 replicas failed replica 1: one; replica 2: two");
    ASSERT_EQ(error.errors().size(), 3U);
    EXPECT_FALSE(error.errors()[0]);
    EXPECT_THROW(std::rethrow_exception(error.errors()[2]), c10::Error);
    EXPECT_THROW(std::rethrow_if_nested(error), std::runtime_error);
  }
}

TEST(Run, AllReduceAndAllGatherKeepTheGraph) {
  std::vector<at::Tensor> weights;
  for (int replica = 0; replica < 3; ++replica)
    weights.push_back(at::full({2}, replica + 1.0).requires_grad_(true));
  const auto results = three().run([&](const ReplicaContext& context) {
    const at::Tensor& own = weights[context.local_replica()];
    return context.all_reduce(ReduceOp::kMean, own) + context.all_gather(own, 0).sum();
  });
  for (const at::Tensor& result : results) EXPECT_TRUE(at::equal(result, at::full({2}, 2.0 + 12.0)));
  results[0].sum().backward();
  for (const at::Tensor& weight : weights)
    EXPECT_TRUE(at::allclose(weight.grad(), at::full({2}, 1.0 / 3 + 2)));
}

TEST(Run, AReplicaThatMissesTheOthersIsNotTheError) {
  const auto run = [](const ReplicaContext& context) {
    if (context.local_replica() == 2) throw std::runtime_error("gone");
    return context.all_reduce(ReduceOp::kSum, at::ones({}));
  };
  EXPECT_EQ(message_of<ReplicaError>([&] { three().run(run); }), "run: of 3 replicas failed replica 2: gone");
  const auto differ = [](const ReplicaContext& context) {
    return context.all_reduce(context.local_replica() == 0 ? ReduceOp::kSum : ReduceOp::kMean, at::ones({}));
  };
  EXPECT_TRUE(has(message_of<ReplicaError>([&] { three().run(differ); }),
                  "run: replica 0 called all_reduce(SUM), but replica 1 called all_reduce(MEAN)."));
}

TEST(Run, InsideOfRunIsRefused) {
  const std::string message = message_of<ReplicaError>([] { three().run([] { three().run([] {}); }); });
  EXPECT_TRUE(has(message, "must not call `run`"));
}

TEST(Run, SeveralThreadsTakeTurns) {
  std::atomic<int> calls = 0;
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const auto sums = three().run([&](const ReplicaContext& context) {
          ++calls;
          return context.all_reduce(ReduceOp::kSum, at::ones({})).item<double>();
        });
        EXPECT_EQ(sums, std::vector<double>(3, 3.0));
      }
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(calls, 4 * 10 * 3);
}

TEST(StrategyReduce, CombinesTheLocalReplicas) {
  const std::vector<at::Tensor> values = {at::tensor({1.0, 2.0}), at::tensor({6.0}), at::tensor({7.0})};
  EXPECT_EQ(three().reduce(ReduceOp::kMean, values, std::vector<std::int64_t>{0}).item<double>(), 4.0);
  EXPECT_TRUE(at::equal(three().gather(values, 0), at::tensor({1.0, 2.0, 6.0, 7.0})));
  EXPECT_EQ(message_of<c10::ValueError>([&] { three().gather({values[0]}, 0); }),
            "gather: there must be one value for each local replica, 3, but there are 1.");
}

}  // namespace
}  // namespace torch_distinput
