// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "comm/group_link.h"
#include "support/in_memory_stores.h"

namespace torch_distinput {

/// The links of a group that has met, by rank.
inline std::vector<GroupLinkPtr> met_links(const std::vector<KeyValueStorePtr>& stores) {
  std::vector<GroupLinkPtr> links;
  for (const auto& store : stores) links.push_back(std::make_shared<GroupLink>(store));
  for (const auto& link : links) link->meet({"a test", std::chrono::seconds{20}});
  return links;
}
inline std::vector<GroupLinkPtr> met_links(int size) { return met_links(in_memory_stores(size)); }

}  // namespace torch_distinput
