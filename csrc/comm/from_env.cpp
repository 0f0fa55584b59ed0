// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "comm/restarts.h"
#include "torch_distinput/process_group.h"

namespace torch_distinput {
namespace {

constexpr const char* kFromEnvCall = "ProcessGroup.from_env";
constexpr const char* kPartedKey = "torch_distinput/parted";

/// The variables in which a launcher tells a process its rank and the number of processes.
struct Launcher {
  const char* rank;
  const char* size;
};
constexpr Launcher kSlurm = {"SLURM_PROCID", "SLURM_NTASKS"};
constexpr Launcher kLaunchers[] = {{"RANK", "WORLD_SIZE"},
                                   {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMI_RANK", "PMI_SIZE"},
                                   kSlurm};

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

/// The variable as a number in [0, `most`].
int number(const char* name, int most) {
  const std::string_view text = variable(name);
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  TORCH_CHECK_VALUE(whole && value >= 0 && value <= most, kFromEnvCall, ": the environment variable ", name,
                    " must be an integer in [0, ", most, "], but is '", std::string(text), "'.");
  return value;
}

/// Whether this is the shell of a Slurm job, from sbatch or salloc, and not a task of srun. There Slurm's
/// number of tasks is what the job may start, but one process runs. Such a shell has no step, or one with a
/// reserved number.
bool in_slurm_shell() {
  constexpr std::uint64_t kLastTrueStep = 0xffffffef;
  constexpr std::string_view kFirst = "0";
  const bool in_job = !variable("SLURM_JOB_ID").empty() || !variable("SLURM_JOBID").empty();
  const std::string_view step = variable("SLURM_STEP_ID");
  std::uint64_t number = kLastTrueStep + 1;
  std::from_chars(step.data(), step.data() + step.size(), number);
  return in_job && number > kLastTrueStep && variable(kSlurm.rank) == kFirst;
}

/// Whether the launcher gave this process its rank.
bool launched(const Launcher& launcher) {
  if (variable(launcher.rank).empty()) return false;
  return std::string_view(launcher.rank) != kSlurm.rank || !in_slurm_shell();
}

/// Whether the launcher's number of processes counts processes that run.
bool tells_size(const Launcher& launcher) {
  if (variable(launcher.size).empty()) return false;
  return std::string_view(launcher.size) != kSlurm.size || launched(launcher);
}

/// The library's connection to a store on rank 0, and there the store itself, which must outlive the
/// connections of the other ranks.
struct Connection {
  c10::intrusive_ptr<c10d::Store> store;
  bool hosts;
  int size;

  Connection(c10::intrusive_ptr<c10d::Store> connected, bool is_host, int ranks)
      : store(std::move(connected)), hosts(is_host), size(ranks) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  ~Connection() {
    constexpr std::chrono::seconds kMostWait{30};
    constexpr std::chrono::milliseconds kPause{10};
    try {
      const auto until = std::chrono::steady_clock::now() + kMostWait;
      std::int64_t parted = store->add(kPartedKey, 1);
      while (hosts && parted < size && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(kPause);
        parted = store->add(kPartedKey, 0);
      }
    } catch (const std::exception&) {
      return;  // the host is gone, so no process waits for this one
    }
  }
};

std::shared_ptr<c10d::Store> connect(int rank, int size, std::chrono::seconds timeout) {
  if (size == 1) {
    auto own = c10::make_intrusive<c10d::HashStore>();
    c10d::Store* const store = own.get();
    return {store, [own = std::move(own)](c10d::Store*) {}};
  }
  const bool agent_hosts = starts_share_store();
  c10d::TCPStoreOptions options;
  if (!variable("MASTER_PORT").empty()) {
    options.port =
        static_cast<std::uint16_t>(number("MASTER_PORT", std::numeric_limits<std::uint16_t>::max()));
  }
  options.isServer = rank == 0 && !agent_hosts;
  options.waitWorkers = false;
  options.timeout = timeout;
  const std::string_view host = variable("MASTER_ADDR");
  auto tcp = c10::make_intrusive<c10d::TCPStore>(host.empty() ? "localhost" : std::string(host), options);
  c10d::Store* const store = tcp.get();
  if (agent_hosts) return {store, [tcp = std::move(tcp)](c10d::Store*) {}};
  auto connection = std::make_shared<Connection>(std::move(tcp), options.isServer, size);
  return {std::move(connection), store};
}

}  // namespace

std::string ProcessGroup::launched_with() {
  const auto found = std::find_if(std::begin(kLaunchers), std::end(kLaunchers), tells_size);
  if (found == std::end(kLaunchers)) return "";
  const auto text = [](const char* name) { return std::string(name) + "=" + std::string(variable(name)); };
  constexpr std::string_view kAlone = "1";
  if (variable(found->size) == kAlone) return "";
  return text(found->size) + (variable(found->rank).empty() ? "" : " and " + text(found->rank));
}

ProcessGroup ProcessGroup::from_env(std::chrono::seconds timeout) {
  ProcessGroup group;
  const auto found = std::find_if(std::begin(kLaunchers), std::end(kLaunchers), launched);
  if (found == std::end(kLaunchers)) {
    const std::string told = launched_with();
    TORCH_CHECK_VALUE(told.empty(), kFromEnvCall, ": the environment says ", told,
                      ", but not which of them this process is.");
  } else {
    const Launcher& launcher = *found;
    group.size = number(launcher.size, std::numeric_limits<int>::max());
    group.rank = number(launcher.rank, group.size - 1);
  }
  group.store = connect(group.rank, group.size, timeout);
  return group;
}

}  // namespace torch_distinput
