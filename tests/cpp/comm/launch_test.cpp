// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/launch.h"

#include <cstdlib>
#include <string>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace torch_distinput {
namespace {

using Variables = Launch::Variables;

Variables operator+(Variables one, const Variables& other) {
  for (const auto& [name, value] : other) one[name] = value;
  return one;
}

const Variables kTask = {{"SLURM_JOB_ID", "4711"},
                         {"SLURM_STEP_ID", "2"},
                         {"SLURM_PROCID", "5"},
                         {"SLURM_NTASKS", "6"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "2"},
                         {"SLURM_JOB_NODELIST", "node[01-03,07]"}};
const Variables kTorchrun = {
    {"TORCHELASTIC_RUN_ID", "none"}, {"RANK", "3"},           {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"},
    {"MASTER_ADDR", "one"},          {"MASTER_PORT", "29400"}};

Launch launch_of(const Variables& variables) {
  return Launch::in(variables, "Op").value();  // NOLINT(bugprone-unchecked-optional-access) - the test fails
}

std::string refusal(const Variables& variables) {
  return message_of<c10::ValueError>([&] { static_cast<void>(Launch::in(variables, "Op")); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Launch, TasksOfSlurmMeetOnTheFirstHostAtAPortOfTheirStep) {
  const Launch launch = launch_of(kTask + Variables{{"SLURMD_NODENAME", "node03"}});
  EXPECT_EQ(launch.launcher, "Slurm");
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 6);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.host, "node03");
  EXPECT_EQ(launch.master_addr, "node01");
  EXPECT_EQ(launch.master_port, 15'000 + 4'711 + 2 * 1'009);
}

TEST(Launch, VariablesOfAStepComeBeforeThoseOfItsJob) {
  const Launch launch =
      launch_of(kTask + Variables{{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_NODELIST", "node[02-03]"}});
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.master_addr, "node02");
}

TEST(Launch, TheUsersAddressComesFirst) {
  const Launch launch = launch_of(kTask + Variables{{"MASTER_ADDR", "head"}, {"MASTER_PORT", "7"}});
  EXPECT_EQ(launch.master_addr, "head");
  EXPECT_EQ(launch.master_port, 7);
}

TEST(Launch, TheShellOfASlurmJobIsNoTask) {
  for (const char* const step :
       {"", "4294967290", "4294967291"})  // salloc's interactive step, the batch step
    EXPECT_EQ(Launch::in(kTask + Variables{{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", step}}, "Op"),
              std::nullopt);
  EXPECT_EQ(Launch::in({{"SLURM_JOB_ID", "17"}, {"SLURM_NTASKS", "4"}}, "Op"), std::nullopt);
}

TEST(Launch, TorchrunsVariablesCountAloneIfAllAreSet) {
  const Launch launch = launch_of(kTask + kTorchrun);
  EXPECT_EQ(launch.launcher, "torchrun");
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.master_addr, "one");
  for (const auto& [name, value] : kTorchrun) {
    if (name == "LOCAL_RANK") continue;
    EXPECT_NE(refusal(kTask + kTorchrun + Variables{{name, ""}}), "") << name;
  }
}

TEST(Launch, ContradictionsAreQuoted) {
  const std::string told = refusal(kTask + Variables{{"RANK", "3"}});
  EXPECT_TRUE(
      contains(told, "Op: the environment variables RANK=3 and SLURM_PROCID=5 contradict each other"));
  EXPECT_TRUE(contains(refusal(kTask + Variables{{"WORLD_SIZE", "7"}}), "WORLD_SIZE=7 and SLURM_NTASKS=6"));
  EXPECT_EQ(launch_of(kTask + Variables{{"RANK", "5"}, {"WORLD_SIZE", "6"}}).launcher, "Slurm");
}

TEST(Launch, TheInnermostLauncherCounts) {
  const Variables mpirun = {
      {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"MASTER_ADDR", "head"}};
  EXPECT_EQ(launch_of(kTask + mpirun).launcher, "Open MPI");
  const Variables hydra = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MASTER_ADDR", "head"}};
  EXPECT_EQ(launch_of(kTask + hydra).launcher, "PMI");
  EXPECT_EQ(launch_of(kTask + hydra + Variables{{"PMI_SIZE", "6"}}).rank, 1);  // as many as the step's tasks
  EXPECT_EQ(launch_of(kTask + Variables{{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}}).launcher, "Slurm");
}

TEST(Launch, ProcessesOfOneMachineMeetThereWithoutAnAddress) {
  const Variables mpirun = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}};
  EXPECT_EQ(launch_of(mpirun + Variables{{"MPI_LOCALNRANKS", "2"}}).master_addr, "127.0.0.1");
  EXPECT_EQ(
      refusal(mpirun + Variables{{"MPI_LOCALNRANKS", "1"}}),
      "Op: the environment says PMI_SIZE=2 and PMI_RANK=1, but not where rank 0 is; set MASTER_ADDR to its "
      "host and MASTER_PORT to a free port there, the same for all processes.");
}

TEST(Launch, RankZeroElsewhereThanOnTheFirstHostIsAnError) {
  EXPECT_TRUE(contains(refusal(kTask + Variables{{"SLURM_PROCID", "0"}}),
                       "SLURM_PROCID=0 runs on SLURM_NODEID=2, which is not the first host of "
                       "SLURM_JOB_NODELIST=node[01-03,07]"));
}

TEST(Launch, WrongValuesAreQuoted) {
  EXPECT_EQ(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
            "Op: the environment variable RANK must be an integer in [0, 1], but is '2'.");
  EXPECT_TRUE(
      contains(refusal(kTask + Variables{{"SLURM_NTASKS", "six"}}), "SLURM_NTASKS must be an integer"));
  EXPECT_TRUE(contains(refusal(kTask + Variables{{"MASTER_PORT", "65536"}}), "MASTER_PORT"));
  EXPECT_TRUE(contains(refusal(kTask + Variables{{"SLURM_LOCALID", "-1"}}), "SLURM_LOCALID"));
  EXPECT_TRUE(contains(refusal(kTask + Variables{{"SLURM_JOB_NODELIST", "node[x-y]"}}), "is 'node[x-y]'"));
  EXPECT_EQ(refusal({{"RANK", "2"}}), "Op: the environment says RANK=2, but WORLD_SIZE is not set.");
  EXPECT_TRUE(contains(refusal({{"PET_NNODES", "2"}}), "PET_NNODES=2 is an argument of torchrun"));
}

TEST(Launch, QuotesWhatSaysThatThereAreSeveralProcesses) {
  EXPECT_EQ(Launch::several_in({}), "");
  EXPECT_EQ(Launch::several_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "");
  EXPECT_EQ(Launch::several_in({{"RANK", "1"}, {"WORLD_SIZE", "2"}}), "WORLD_SIZE=2 and RANK=1");
  EXPECT_EQ(Launch::several_in({{"WORLD_SIZE", "2"}}), "WORLD_SIZE=2");
  EXPECT_EQ(Launch::several_in({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}), "PMI_SIZE=4 and PMI_RANK=3");
  EXPECT_EQ(Launch::several_in({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}), "");
  EXPECT_EQ(Launch::several_in(kTask), "SLURM_NTASKS=6 and SLURM_PROCID=5");
  EXPECT_EQ(Launch::several_in(kTask + Variables{{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", ""}}), "");
  EXPECT_EQ(Launch::several_in({{"PET_NNODES", "2"}}), "PET_NNODES=2");
  EXPECT_EQ(Launch::several_in({{"PET_NNODES", "2"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), "");
  // Several torchruns of one process each, under srun; and a WORLD_SIZE that nobody set for this program.
  EXPECT_EQ(Launch::several_in(kTask + kTorchrun + Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "");
  EXPECT_EQ(Launch::several_in(kTask + Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}}),
            "SLURM_NTASKS=6 and SLURM_PROCID=5");
}

TEST(Launch, ReadsTheVariablesOfTheProcess) {
  ::setenv("TDI_OF_A_TEST", "a=b", 1);
  ::setenv("TDI_EMPTY", "", 1);
  const Variables variables = Launch::variables();
  ::unsetenv("TDI_OF_A_TEST");
  ::unsetenv("TDI_EMPTY");
  EXPECT_EQ(variables.at("TDI_OF_A_TEST"), "a=b");
  EXPECT_EQ(variables.at("TDI_EMPTY"), "");
}

}  // namespace
}  // namespace torch_distinput
