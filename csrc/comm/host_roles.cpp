// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/host_roles.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "comm/leader_role.h"
#include "comm/member_role.h"

namespace torch_distinput {
namespace {

/// Addresses that are tried, and how often each.
constexpr int kAddresses = 16;
constexpr int kTries = 20;
constexpr std::chrono::milliseconds kBetweenTries{1};

std::uint64_t draw() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::unique_ptr<LinkRole> lead(const KeyValueStorePtr& store, const HostIdentity& host,
                               std::optional<LocalListener> listener) {
  auto machine = std::make_unique<HostMachine>(store->rank(), store->size(), draw(), host.name);
  return std::make_unique<LeaderRole>(store, std::move(machine), std::move(listener), host.address);
}

std::unique_ptr<LinkRole> role_from(const KeyValueStorePtr& store, const HostIdentity& host, int first);

/// The role of this process at one address; null where that cannot be used. A process that has just taken the
/// address does not listen yet.
std::unique_ptr<LinkRole> role_at(const KeyValueStorePtr& store, const HostIdentity& host, int number) {
  const std::string address = host.address + "/" + std::to_string(number);
  for (int tries = 0; tries < kTries; ++tries) {
    if (auto listener = LocalListener::at(address)) return lead(store, host, std::move(listener));
    if (auto leader = LocalConnection::to(address)) {
      return std::make_unique<MemberRole>(store, std::move(*leader), host.name, host.address,
                                          [=] { return role_from(store, host, number + 1); });
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
  return nullptr;
}

std::unique_ptr<LinkRole> role_from(const KeyValueStorePtr& store, const HostIdentity& host, int first) {
  for (int number = first; number < kAddresses && !host.address.empty(); ++number) {
    try {
      if (auto role = role_at(store, host, number)) return role;
    } catch (const std::runtime_error&) {
      continue;  // another user has the address
    }
  }
  return lead(store, host, std::nullopt);
}

}  // namespace

std::unique_ptr<LinkRole> role_on_host(const KeyValueStorePtr& store, const HostIdentity& host) {
  return role_from(store, host, 0);
}

}  // namespace torch_distinput
