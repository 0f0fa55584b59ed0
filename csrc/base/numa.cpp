// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/numa.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace torch_distinput {
namespace {

constexpr int kBitsOfWord = 8 * sizeof(unsigned long);
constexpr int kMostNodes = 1024;
// The kernel takes one bit less than it is told.
constexpr unsigned long kMaskBits = kMostNodes + 1;
using Mask = std::array<unsigned long, kMostNodes / kBitsOfWord>;

std::optional<int> number(const std::string& text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 0) return std::nullopt;
  return value;
}

std::string first_line(const std::filesystem::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

/// 0, 1, 2 and 8 for "0-2,8".
std::vector<int> numbers_in(const std::string& list) {
  std::vector<int> found;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::size_t dash = range.find('-');
    const std::optional<int> first = number(range.substr(0, dash));
    const std::optional<int> last = dash == std::string::npos ? first : number(range.substr(dash + 1));
    if (!first || !last) continue;
    for (int value = *first; value <= *last; ++value) found.push_back(value);
  }
  return found;
}

bool valid(int node) noexcept { return node >= 0 && node < kMostNodes; }

/// REQUIRES: `valid(node)`.
Mask mask_of(int node) noexcept {
  Mask mask{};
  mask[static_cast<std::size_t>(node / kBitsOfWord)] = 1UL << (node % kBitsOfWord);
  return mask;
}

}  // namespace

std::map<int, std::vector<int>> cpus_of_nodes(const std::string& sysfs) {
  std::map<int, std::vector<int>> nodes;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(sysfs + "/devices/system/node", none)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("node")) continue;
    if (const auto node = number(name.substr(4)))
      nodes[*node] = numbers_in(first_line(entry.path() / "cpulist"));
  }
  return nodes;
}

std::optional<int> node_of_pci_device(const std::string& address, const std::string& sysfs) {
  return number(first_line(sysfs + "/bus/pci/devices/" + address + "/numa_node"));  // -1: unknown
}

// The calls of libnuma, without the library: three calls are not worth what it would ask of each machine.
NodeScope::NodeScope(std::optional<int> node) noexcept {
  if (!node || !valid(*node)) return;
  Policy before;
  if (::syscall(SYS_get_mempolicy, &before.mode, before.nodes.data(), kMostNodes, nullptr, 0) != 0) return;
  if (::syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask_of(*node).data(), kMaskBits) == 0) before_ = before;
}

NodeScope::~NodeScope() {
  if (before_) ::syscall(SYS_set_mempolicy, before_->mode, before_->nodes.data(), kMaskBits);
}

bool place_on_node(void* data, std::size_t bytes, int node) noexcept {
  return valid(node) &&
         ::syscall(SYS_mbind, data, bytes, MPOL_PREFERRED, mask_of(node).data(), kMaskBits, 0) == 0;
}

}  // namespace torch_distinput
