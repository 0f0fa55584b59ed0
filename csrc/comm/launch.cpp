// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/launch.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string_view>
#include <system_error>

#include <c10/util/Exception.h>
#include <unistd.h>

#include "comm/host_list.h"

namespace torch_distinput {
namespace {

using Variables = Launch::Variables;

constexpr int kLargest = std::numeric_limits<int>::max();
constexpr int kMostPort = std::numeric_limits<std::uint16_t>::max();
constexpr const char* kMasterAddr = "MASTER_ADDR";
constexpr const char* kMasterPort = "MASTER_PORT";

/// The names of a launcher's variables.
struct Names {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;  // "" where none is needed: Slurm names the first host
};
constexpr Names kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
// Scripts, Ray Train and Kubernetes operators set some of torchrun's variables.
constexpr Names kRank = {"RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kPmi = {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names kStep = {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""};
constexpr Names kJob = {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""};

std::string_view value(const Variables& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string_view() : std::string_view(found->second);
}

bool has(const Variables& variables, const char* name) { return !value(variables, name).empty(); }

/// The first of two variables that is set; `second` if none is.
const char* either(const Variables& variables, const char* first, const char* second) {
  return has(variables, first) ? first : second;
}

std::string quoted(const Variables& variables, const char* name) {
  return std::string(name) + "=" + std::string(value(variables, name));
}

template <class Integer>
std::optional<Integer> parsed(std::string_view text) {
  Integer number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// The variables of one process, whose wrong values are errors of `op`.
struct Environment {
  const Variables& variables;
  const std::string& op;

  /// The variable as an integer in [least, most].
  int number(const char* name, int least, int most) const {
    const std::optional<int> found = parsed<int>(value(variables, name));
    TORCH_CHECK_VALUE(found && *found >= least && *found <= most, op, ": the environment variable ", name,
                      " must be an integer in [", least, ", ", most, "], but is '",
                      std::string(value(variables, name)), "'.");
    return *found;
  }

  std::optional<int> optional_number(const char* name, int least, int most) const {
    if (!has(variables, name)) return std::nullopt;
    return number(name, least, most);
  }
};

/// Whether Slurm's variables are those of a task of srun, and not of the shell of a job, from sbatch or
/// salloc. There Slurm's number of tasks is what the job may start, but one process runs. Such a shell has no
/// step, or one with a reserved number.
bool is_task(const Variables& variables) {
  constexpr std::uint64_t kLastTrueStep = 0xffffffef;
  constexpr std::string_view kFirst = "0";
  const bool in_job = has(variables, "SLURM_JOB_ID") || has(variables, "SLURM_JOBID");
  const auto step = parsed<std::uint64_t>(value(variables, "SLURM_STEP_ID"));
  const bool in_step = step && *step <= kLastTrueStep;
  return has(variables, kStep.rank) && (in_step || !in_job || value(variables, kStep.rank) != kFirst);
}

/// Those of Slurm. The number of tasks of a step is the right one, where that of its job is another one.
const Names& slurm_names(const Variables& variables) { return has(variables, kStep.size) ? kStep : kJob; }

/// Whether variables of PMI are those of a step of Slurm, which says more: srun sets both. Under an mpirun in
/// a job, Slurm's task is what starts the processes of a machine.
bool are_of_step(const Variables& variables) {
  const Names& slurm = slurm_names(variables);
  return is_task(variables) && value(variables, kPmi.rank) == value(variables, slurm.rank) &&
         value(variables, kPmi.size) == value(variables, slurm.size);
}

/// Whether torchrun set all of its variables, so that those of what started torchrun mean nothing.
bool is_torchrun(const Variables& variables) {
  const auto& names = {"TORCHELASTIC_RUN_ID", kTorchrun.rank, kTorchrun.size,
                       kTorchrun.local_rank,  kMasterAddr,    kMasterPort};
  return std::all_of(names.begin(), names.end(), [&](const char* name) { return has(variables, name); });
}

bool has_either(const Variables& variables, const Names& names) {
  return has(variables, names.rank) || has(variables, names.size);
}

/// The launcher that started this process, the innermost if one started another, leaving out RANK and
/// WORLD_SIZE: an mpirun in a job of Slurm starts its own processes by srun.
const Names* started_by(const Variables& variables) {
  if (has_either(variables, kOpenMpi)) return &kOpenMpi;
  if (has_either(variables, kPmi) && !are_of_step(variables)) return &kPmi;
  return is_task(variables) ? &slurm_names(variables) : nullptr;
}

void check_agreement(const Environment& environment, const char* one, const char* other, int expected) {
  const Variables& variables = environment.variables;
  if (!has(variables, one)) return;
  TORCH_CHECK_VALUE(
      environment.number(one, 0, kLargest) == expected, environment.op, ": the environment variables ",
      quoted(variables, one), " and ", quoted(variables, other),
      " contradict each other. torchrun's variables count alone only where all of them are set; "
      "unset those of the launcher that did not start this process.");
}

void check_complete(const Environment& environment, const char* name, const char* other) {
  TORCH_CHECK_VALUE(has(environment.variables, name) || !has(environment.variables, other), environment.op,
                    ": the environment says ", quoted(environment.variables, other), ", but ", name,
                    " is not set.");
}

/// Whether the launcher says that all processes are on this machine.
bool all_are_here(const Environment& environment, const Names& names, int size) {
  if (size == 1) return true;
  const std::string_view none = names.local_size;
  return !none.empty() && environment.optional_number(names.local_size, 1, size) == size;
}

/// The first host of a step of Slurm, on which its rank 0 has to be.
std::string first_host_of_step(const Environment& environment, int rank) {
  const Variables& variables = environment.variables;
  const char* const name = either(variables, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
  const std::optional<std::string> first = first_host(value(variables, name));
  TORCH_CHECK_VALUE(first, environment.op, ": the environment variable ", name,
                    " must be a list of hosts, such as node[01-03,07], but is '",
                    std::string(value(variables, name)), "'; set MASTER_ADDR to the host of rank 0.");
  const std::optional<int> node = environment.optional_number("SLURM_NODEID", 0, kLargest);
  TORCH_CHECK_VALUE(rank != 0 || node.value_or(0) == 0, environment.op, ": SLURM_PROCID=0 runs on ",
                    quoted(variables, "SLURM_NODEID"), ", which is not the first host of ",
                    quoted(variables, name), "; set MASTER_ADDR to the host of rank 0.");
  return *first;
}

std::string master_addr(const Environment& environment, const Names& names, int rank, int size) {
  const Variables& variables = environment.variables;
  if (has(variables, kMasterAddr)) return std::string(value(variables, kMasterAddr));
  if (all_are_here(environment, names, size)) return "127.0.0.1";
  if (names.rank == kStep.rank) return first_host_of_step(environment, rank);
  TORCH_CHECK_VALUE(false, environment.op, ": the environment says ", quoted(variables, names.size), " and ",
                    quoted(variables, names.rank),
                    ", but not where rank 0 is; set MASTER_ADDR to its host and MASTER_PORT to a free port "
                    "there, the same for all processes.");
}

/// A port that the tasks of a step know without being told: from 15000 to 24999, below those that systems
/// give to clients.
std::uint16_t port_of_step(const Environment& environment) {
  constexpr std::uint64_t kFirst = 15'000;
  constexpr std::uint64_t kPorts = 10'000;
  constexpr std::uint64_t kApart = 1'009;  // between steps of one job
  const Variables& variables = environment.variables;
  const char* const name = either(variables, "SLURM_JOB_ID", "SLURM_JOBID");
  const auto job = parsed<std::uint32_t>(value(variables, name));
  TORCH_CHECK_VALUE(job, environment.op, ": the environment variable ", name, " must be an integer, but is '",
                    std::string(value(variables, name)),
                    "'; set MASTER_PORT to a free port on the host of rank 0.");
  const std::uint64_t step = parsed<std::uint32_t>(value(variables, "SLURM_STEP_ID")).value_or(0);
  return static_cast<std::uint16_t>(kFirst + (*job + kApart * step) % kPorts);
}

std::uint16_t master_port(const Environment& environment, const Names& names, int size) {
  constexpr std::uint16_t kOfTorch = 29'500;
  if (const auto port = environment.optional_number(kMasterPort, 1, kMostPort))
    return static_cast<std::uint16_t>(*port);
  return names.rank == kStep.rank && size > 1 ? port_of_step(environment) : kOfTorch;
}

/// Whether Kubernetes started several nodes, whose processes torchrun has to start.
bool waits_for_torchrun(const Variables& variables) {
  constexpr std::string_view kAlone = "1";
  return has(variables, "PET_NNODES") && value(variables, "PET_NNODES") != kAlone;
}

/// The names of the variables that tell this process its rank; null without a launcher.
const Names* names_in(const Environment& environment) {
  const Variables& variables = environment.variables;
  if (is_torchrun(variables)) return &kTorchrun;
  if (const Names* const starter = started_by(variables)) return starter;
  if (has_either(variables, kRank)) return &kRank;
  TORCH_CHECK_VALUE(!waits_for_torchrun(variables), environment.op, ": the environment variable ",
                    quoted(variables, "PET_NNODES"),
                    " is an argument of torchrun, which did not start this process; start the program with "
                    "torchrun on each node.");
  return nullptr;
}

}  // namespace

Launch::Variables Launch::variables() {
  Variables variables;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t end = std::min(text.find('='), text.size());
    variables.emplace(text.substr(0, end), text.substr(std::min(end + 1, text.size())));
  }
  return variables;
}

std::optional<Launch> Launch::in(const Variables& variables, const std::string& op) {
  const Environment environment{variables, op};
  const Names* const names = names_in(environment);
  if (names == nullptr) return std::nullopt;
  check_complete(environment, names->size, names->rank);
  check_complete(environment, names->rank, names->size);
  Launch launch;
  launch.launcher = names->launcher;
  launch.size = environment.number(names->size, 1, kLargest);
  launch.rank = environment.number(names->rank, 0, launch.size - 1);
  if (names != &kTorchrun) {
    check_agreement(environment, kRank.rank, names->rank, launch.rank);
    check_agreement(environment, kRank.size, names->size, launch.size);
  }
  launch.local_rank = local_rank_in(variables, op);
  launch.host = host_in(variables);
  launch.master_addr = torch_distinput::master_addr(environment, *names, launch.rank, launch.size);
  launch.master_port = torch_distinput::master_port(environment, *names, launch.size);
  return launch;
}

std::optional<int> Launch::local_rank_in(const Variables& variables, const std::string& op) {
  const Environment environment{variables, op};
  for (const Names& names : {kTorchrun, kOpenMpi, kPmi, kStep})
    if (const auto rank = environment.optional_number(names.local_rank, 0, kLargest)) return rank;
  return std::nullopt;
}

std::string Launch::host_in(const Variables& variables) {
  return std::string(value(variables, "SLURMD_NODENAME"));
}

std::string Launch::several_in(const Variables& variables) {
  constexpr std::string_view kAlone = "1";
  const auto says = [&](const Names* names) {
    return names != nullptr && has(variables, names->size) && value(variables, names->size) != kAlone;
  };
  const Names* const starter = is_torchrun(variables) ? nullptr : started_by(variables);
  const Names* const several = says(starter) ? starter : says(&kRank) ? &kRank : nullptr;
  if (several != nullptr)
    return quoted(variables, several->size) +
           (has(variables, several->rank) ? " and " + quoted(variables, several->rank) : "");
  const bool launched = starter != nullptr || has_either(variables, kRank);
  return !launched && waits_for_torchrun(variables) ? quoted(variables, "PET_NNODES") : "";
}

}  // namespace torch_distinput
