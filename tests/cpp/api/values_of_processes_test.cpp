// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdlib>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/errors.h"
#include "torch_distinput/error.h"
#include "torch_distinput/multi_worker.h"

namespace torch_distinput {
namespace {

/// Sets environment variables, until it is destroyed.
class Environment {
 public:
  explicit Environment(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::map<std::string, std::string> variables_;
};

std::string free_port() {
  const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ::bind(probe, reinterpret_cast<const sockaddr*>(&address), size);
  ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(probe);
  return std::to_string(ntohs(address.sin_port));
}

/// The groups of two processes, here both in this one.
std::vector<ProcessGroup> groups_of_two() {
  const std::string port = free_port();
  std::vector<ProcessGroup> groups;
  for (const char* rank : {"0", "1"}) {
    const Environment mpi({{"OMPI_COMM_WORLD_RANK", rank},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"MASTER_PORT", port}});
    groups.push_back(ProcessGroup::from_env(std::chrono::seconds{30}));
  }
  return groups;
}

/// Runs `body(strategy)` for both processes at the same time; each has two CPU replicas.
template <class Body>
auto on_both(const Body& body) {
  const auto run = [&body](ProcessGroup group) {
    const MultiWorkerMirroredStrategy strategy(group, {"cpu", "cpu"});
    return body(strategy);
  };
  std::vector<std::future<decltype(run(groups_of_two()[0]))>> running;
  // No group stays here: rank 0's end waits for that of rank 1.
  for (ProcessGroup& group : groups_of_two())
    running.push_back(std::async(std::launch::async, run, std::move(group)));
  std::vector<decltype(running[0].get())> results;
  for (auto& one : running) results.push_back(one.get());
  return results;
}

TEST(FromEnv, WithoutALauncherIsOneProcess) {
  const ProcessGroup group = ProcessGroup::from_env();
  EXPECT_EQ(group.size, 1);
  const MultiWorkerMirroredStrategy strategy(group, {"cpu"});
  EXPECT_EQ(strategy.reduce(ReduceOp::kSum, {at::ones({})}).item<double>(), 1.0);
}

TEST(FromEnv, RefusesWhatTheEnvironmentDoesNotSayInFull) {
  const std::map<std::string, std::string> half = {{"OMPI_COMM_WORLD_SIZE", "4"}};
  const Environment launched(half);
  EXPECT_EQ(message_of<c10::ValueError>([] { static_cast<void>(ProcessGroup::from_env()); }),
            "ProcessGroup.from_env: the environment says OMPI_COMM_WORLD_SIZE=4, but OMPI_COMM_WORLD_RANK is "
            "not set.");
  EXPECT_EQ(ProcessGroup::launched_with(), "OMPI_COMM_WORLD_SIZE=4");
}

TEST(FromEnv, TheShellOfASlurmJobIsOneProcess) {
  const Environment batch({{"SLURM_JOB_ID", "17"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
  EXPECT_EQ(ProcessGroup::from_env().size, 1);
  EXPECT_EQ(ProcessGroup::launched_with(), "");
}

TEST(ValuesOfProcesses, ReduceAndGatherSeeAllReplicas) {
  const auto results = on_both([](const Strategy& strategy) {
    const std::int64_t first = 2 * strategy.input_pipeline_id();
    const auto parts = strategy.run([](const ReplicaContext& context) {
      const auto id = context.replica_id_in_sync_group();
      return at::full({id}, static_cast<double>(id));  // replica k has k rows of k
    });
    EXPECT_EQ(parts[1].size(0), first + 1);
    const at::Tensor mean = strategy.reduce(ReduceOp::kMean, parts, std::vector<std::int64_t>{0});
    return std::pair(mean.item<double>(), strategy.gather(parts, 0));
  });
  for (const auto& [mean, all] : results) {
    EXPECT_NEAR(mean, (1.0 + 2 * 2 + 3 * 3) / 6, 1e-6);
    EXPECT_EQ(all.size(0), 6);
    EXPECT_EQ(all.sum().item<double>(), 14.0);
  }
}

TEST(ValuesOfProcesses, GradientsFlowToThisProcess) {
  const auto gradients = on_both([](const Strategy& strategy) {
    std::vector<at::Tensor> weights = {at::ones({}).requires_grad_(true), at::ones({}).requires_grad_(true)};
    const auto sums = strategy.run([&](const ReplicaContext& context) {
      return context.all_reduce(ReduceOp::kSum, 2 * weights[context.local_replica()]);
    });
    EXPECT_EQ(sums[1].item<double>(), 8.0);
    sums[0].backward();
    return weights[0].grad().item<double>() + weights[1].grad().item<double>();
  });
  EXPECT_EQ(gradients, std::vector<double>(2, 4.0));
}

TEST(ValuesOfProcesses, AProcessThatLeavesIsNamed) {
  const auto messages = on_both([](const Strategy& strategy) -> std::string {
    const std::vector<at::Tensor> values = {at::ones({}), at::ones({})};
    strategy.reduce(ReduceOp::kSum, values);
    if (strategy.input_pipeline_id() == 1) return "";
    return message_of<DistributedDatasetError>([&] { strategy.reduce(ReduceOp::kSum, values); });
  });
  EXPECT_EQ(messages[0], "Strategy: rank 1 left after 1 exchanges of values, but rank 0 makes another one.");
}

}  // namespace
}  // namespace torch_distinput
