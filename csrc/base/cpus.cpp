// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/cpus.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include <sched.h>

namespace torch_distinput {
namespace {

/// The folders of one process's control group, from its own up to the highest that is mounted.
using Folders = std::vector<std::string>;

bool lists(const std::string& names, std::string_view wanted) {
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == wanted) return true;
  }
  return false;
}

/// `group`, seen from a mount whose top is the group `top`: a container may see the path that its host has.
std::string below(const std::string& group, const std::string& top) {
  if (top == "/") return group;
  return group.starts_with(top) ? group.substr(top.size()) : "";
}

Folders folders(const std::string& mount, std::string group) {
  Folders found;
  while (!group.empty() && group != "/") {
    found.push_back(mount + group);
    group.resize(group.rfind('/'));
  }
  found.push_back(mount);
  return found;
}

/// The path of this process's group in the hierarchy that limits CPUs; version 2 has no controllers there.
std::string group_of(const std::string& process, bool version2) {
  std::ifstream groups(process + "/cgroup");
  for (std::string line; std::getline(groups, line);) {
    std::istringstream fields(line);
    std::string number, controllers, path;
    if (!std::getline(fields, number, ':') || !std::getline(fields, controllers, ':') ||
        !std::getline(fields, path))
      continue;
    if (version2 ? controllers.empty() : lists(controllers, "cpu")) return path;
  }
  return "";
}

double quota_of(double quota, double period) {
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

double version2_limit(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0;  // stays 0 for the word "max"
  double period = 0;
  file >> quota >> period;
  return quota_of(quota, period);
}

double version1_limit(const std::string& folder) {
  double quota = 0;
  double period = 0;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return quota_of(quota, period);
}

}  // namespace

std::optional<double> cpu_quota(const std::string& process) {
  double least = std::numeric_limits<double>::infinity();
  std::ifstream mounts(process + "/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, top, mount, word;
    fields >> id >> parent >> device >> top >> mount;
    while (fields >> word && word != "-") {
    }
    std::string kind, source, options;
    fields >> kind >> source >> options;
    const bool version2 = kind == "cgroup2";
    if (!version2 && (kind != "cgroup" || !lists(options, "cpu"))) continue;
    for (const std::string& folder : folders(mount, below(group_of(process, version2), top)))
      least = std::min(least, version2 ? version2_limit(folder) : version1_limit(folder));
  }
  if (std::isinf(least)) return std::nullopt;
  return least;
}

int available_cpus() {
  static const std::optional<double> quota = cpu_quota();
  cpu_set_t mask;
  // The mask cannot be read where there are more CPUs than it has bits.
  const int runnable = ::sched_getaffinity(0, sizeof(mask), &mask) == 0
                           ? CPU_COUNT(&mask)
                           : static_cast<int>(std::thread::hardware_concurrency());
  const int allowed = quota ? static_cast<int>(std::min(std::ceil(*quota), 1e6)) : runnable;
  return std::max(1, std::min(runnable, allowed));
}

}  // namespace torch_distinput
