// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/job_share.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <unordered_map>

#include <unistd.h>

#include "base/of_process.h"
#include "io/host_deal.h"

namespace torch_distinput {
namespace {

/// The ranks of a job begin within this time of one another.
constexpr std::chrono::seconds kStartTogether{60};
constexpr std::size_t kTimeBytes = sizeof(std::int64_t);

/// How often this process has asked for each thing. A forked child is a process of another job.
struct Calls {
  std::mutex mutex;
  std::unordered_map<std::string, std::uint64_t> counts;
};

std::uint64_t number_of_call(const std::string& what) {
  static auto& calls = *new OfProcess<Calls>;
  Calls& own = calls.get();
  const std::lock_guard lock(own.mutex);
  return own.counts[what]++;
}

/// The time since the start of the machine, which its processes have in common, in nanoseconds.
std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// When a process began, which tells it from others that had its number; "" where the system does not tell.
std::string begin_of(::pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  // The name of the program, in parentheses, may hold anything; the 20th field after it is the time.
  std::size_t at = line.rfind(')');
  for (int field = 0; field < 20 && at != std::string::npos; ++field) at = line.find(' ', at + 1);
  return at == std::string::npos ? "" : line.substr(at + 1, line.find(' ', at + 1) - at - 1);
}

std::string with_time(std::int64_t time) {
  std::string bytes(kTimeBytes, '\0');
  std::memcpy(bytes.data(), &time, kTimeBytes);
  return bytes;
}

bool is_recent(std::span<const char> bytes) {
  std::int64_t made = 0;
  if (bytes.size() < kTimeBytes) return false;
  std::memcpy(&made, bytes.data(), kTimeBytes);
  return now() - made < std::chrono::nanoseconds(kStartTogether).count();
}

}  // namespace

std::optional<std::string> job_on_host() {
  if (!has_company()) return std::nullopt;
  const ::pid_t parent = ::getppid();
  const std::string begin = begin_of(parent);
  if (begin.empty()) return std::nullopt;
  // torchrun starts the ranks again when one has failed.
  const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return std::to_string(parent) + " " + begin + " " + (restarts == nullptr ? "" : restarts);
}

void share_in_job(const std::string& what, std::uint64_t most, const SharedEntry::Accept& accept,
                  const MakeShared& make, const Poll& poll) {
  const auto job = job_on_host();
  if (!job) {
    make([](std::uint64_t) {});
    return;
  }
  const std::string key = what + " of " + *job + " call " + std::to_string(number_of_call(what));
  share_on_host(
      key, most + kTimeBytes,
      [&](std::span<const char> bytes) { return is_recent(bytes) && accept(bytes.subspan(kTimeBytes)); },
      [&](const std::function<void(std::uint64_t)>& report) {
        const std::string time = with_time(now());
        std::vector<char> bytes = make(report);
        bytes.insert(bytes.begin(), time.begin(), time.end());
        return bytes;
      },
      poll);
}

}  // namespace torch_distinput
