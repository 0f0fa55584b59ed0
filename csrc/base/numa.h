// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "torch_distinput/api.h"

namespace torch_distinput {

// Which NUMA nodes a machine has, and memory of one of them. `sysfs`: where the kernel tells. The functions
// are safe from any thread.

/// The CPUs of each node, in ascending order; no entry where the kernel tells none.
TDI_API std::map<int, std::vector<int>> cpus_of_nodes(const std::string& sysfs = "/sys");

/// The node that a PCI device such as "0000:41:00.0" is connected to; none where the kernel knows none.
TDI_API std::optional<int> node_of_pci_device(const std::string& address, const std::string& sysfs = "/sys");

/// While it lives, memory that this thread is the first to touch, and what drivers allocate for it, comes
/// from `node` as long as that has some. Without a node, and where a container forbids it, the system places
/// it as usual.
class TDI_API NodeScope {
 public:
  explicit NodeScope(std::optional<int> node) noexcept;
  ~NodeScope();
  NodeScope(const NodeScope&) = delete;
  NodeScope& operator=(const NodeScope&) = delete;

  /// Whether the system does so.
  bool placed() const noexcept { return before_.has_value(); }

 private:
  static constexpr std::size_t kWords = 16;  ///< as many nodes as the kernel may have: 1,024
  struct Policy {
    int mode = 0;
    std::array<unsigned long, kWords> nodes{};
  };
  std::optional<Policy> before_;
};

/// Makes pages of mapped memory that nobody has touched yet come from `node` as long as that has some,
/// whichever process that shares the mapping touches them first. `data` is the start of a page. Returns
/// whether the system does so.
bool place_on_node(void* data, std::size_t bytes, int node) noexcept;

}  // namespace torch_distinput
