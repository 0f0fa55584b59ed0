// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/host_identity.h"

#include <array>
#include <cstdlib>
#include <sstream>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

#include "base/hash.h"
#include "torch_distinput/launch.h"

namespace torch_distinput {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string host_name() {
  if (const std::string told = Launch::host_in(Launch::variables()); !told.empty()) return told;
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// Equal for clients of one store; "" where a store has no name.
std::string name_of(c10d::Store& store) {
  if (auto* const prefixed = dynamic_cast<c10d::PrefixStore*>(&store))
    return name_of(*prefixed->getUnderlyingNonPrefixStore());
  if (const auto* const tcp = dynamic_cast<c10d::TCPStore*>(&store))
    return tcp->getHost() + ":" + std::to_string(tcp->getPort());
  if (const auto* const file = dynamic_cast<c10d::FileStore*>(&store)) return file->getPath();
  return "";
}

}  // namespace

HostIdentity host_identity(const ProcessGroup& group) {
  const std::string id = environment("TDI_HOST_ID");
  HostIdentity identity{id.empty() ? host_name() : id, ""};
  const std::string store = name_of(*group.store);
  if (store.empty()) return identity;
  Hash hash;
  // An agent of torchrun counts its restarts, and starts all processes of its host.
  for (const std::string& part : {store, group.name, std::to_string(group.size), std::to_string(::getuid()),
                                  environment("TORCHELASTIC_RESTART_COUNT"), id})
    hash.add(part + '\n');
  std::ostringstream address;
  address << "torch_distinput/" << std::hex << hash.value();
  identity.address = address.str();
  return identity;
}

}  // namespace torch_distinput
