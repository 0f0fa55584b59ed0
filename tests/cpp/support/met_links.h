// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "comm/group_link.h"
#include "support/in_memory_stores.h"

namespace torch_distinput {

/// A host whose address no other test has.
inline HostIdentity new_host(const std::string& name) {
  static std::atomic<int> hosts{0};
  return {name, "tdi-test/" + std::to_string(::getpid()) + "/" + std::to_string(++hosts)};
}

/// Identities of `size` ranks, `per_host` on each host: `node0`, `node1`, ...
inline std::vector<HostIdentity> hosts_of(int size, int per_host) {
  std::vector<HostIdentity> hosts;
  for (int rank = 0; rank < size; ++rank) {
    const bool first = rank % per_host == 0;
    hosts.push_back(first ? new_host("node" + std::to_string(rank / per_host)) : hosts.back());
  }
  return hosts;
}

/// The links of a group that has met, by rank. `hosts`: of the ranks; empty: each is a host of its own.
inline std::vector<GroupLinkPtr> met_links(const std::vector<KeyValueStorePtr>& stores,
                                           const std::vector<HostIdentity>& hosts = {}) {
  std::vector<GroupLinkPtr> links;
  for (std::size_t rank = 0; rank < stores.size(); ++rank)
    links.push_back(std::make_shared<GroupLink>(stores[rank], hosts.empty() ? HostIdentity{} : hosts[rank]));
  for (const auto& link : links) link->meet({"a test", std::chrono::seconds{20}});
  return links;
}
inline std::vector<GroupLinkPtr> met_links(int size) { return met_links(in_memory_stores(size)); }

}  // namespace torch_distinput
