// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "comm/restarts.h"
#include "torch_distinput/launch.h"
#include "torch_distinput/process_group.h"

namespace torch_distinput {
namespace {

constexpr const char* kPartedKey = "torch_distinput/parted";

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

std::shared_ptr<c10d::Store> connect(const Launch& launch, std::chrono::seconds timeout) {
  if (launch.size == 1) {
    auto own = c10::make_intrusive<c10d::HashStore>();
    c10d::Store* const store = own.get();
    return {store, [own = std::move(own)](c10d::Store*) {}};
  }
  const bool agent_hosts = starts_share_store();
  c10d::TCPStoreOptions options;
  options.port = launch.master_port;
  options.isServer = launch.rank == 0 && !agent_hosts;
  options.waitWorkers = false;
  options.timeout = timeout;
  auto tcp = c10::make_intrusive<c10d::TCPStore>(launch.master_addr, options);
  c10d::Store* const store = tcp.get();
  if (agent_hosts) return {store, [tcp = std::move(tcp)](c10d::Store*) {}};
  auto connection = std::make_shared<Connection>(std::move(tcp), options.isServer, launch.size);
  return {std::move(connection), store};
}

}  // namespace

std::string ProcessGroup::launched_with() { return Launch::several_in(Launch::variables()); }

ProcessGroup ProcessGroup::from_env(std::chrono::seconds timeout) {
  const Launch launch = Launch::in(Launch::variables(), "ProcessGroup.from_env").value_or(Launch());
  ProcessGroup group;
  group.size = launch.size;
  group.rank = launch.rank;
  group.store = connect(launch, timeout);
  return group;
}

}  // namespace torch_distinput
