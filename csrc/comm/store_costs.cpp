// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/store_costs.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "comm/c10d_store.h"
#include "comm/counting_store.h"
#include "comm/group_link.h"
#include "comm/heartbeat.h"
#include "torch_distinput/process_group.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr const char* kScope = "bench/0";
constexpr int kRounds = 11;
/// Of the summary of a round of 32 steps, and of a handshake.
constexpr std::size_t kTextBytes = 650;
constexpr std::chrono::milliseconds kBeat{1000};

/// All texts are equal, as those of handshakes are.
std::string first_of(const std::vector<std::string>& texts) { return texts.front(); }

class SimulatedJob {
 public:
  SimulatedJob(c10d::Store& store, int ranks, int hosts, const std::string& name) {
    const std::string job = "torch_distinput-bench/" + std::to_string(::getpid()) + "/" +
                            std::to_string(Clock::now().time_since_epoch().count()) + "/";
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string host = std::to_string(static_cast<std::int64_t>(rank) * hosts / ranks);
      links_.push_back(std::make_shared<GroupLink>(
          counting_store(c10d_store(ProcessGroup(store, rank, ranks, name)), traffic_),
          HostIdentity{"node" + host, job + host}));
    }
  }

  void meet() {
    for (const auto& link : links_) link->meet({"bench-store", std::chrono::minutes{5}});
    for (const auto& link : links_) link->open(kScope);
  }

  void reduce(const std::string& name) {
    const std::string key = std::string(kScope) + "/" + name, text(kTextBytes, 'x');
    for (const auto& link : links_) link->contribute(key, text, first_of);
    for (const auto& link : links_) link->result(key, {"bench-store", std::chrono::minutes{5}});
  }

  /// What monitors do once in an interval.
  void beat() {
    for (const auto& link : links_) {
      link->beat("took step 812 of strategy/0/dataset/0/0 0 s ago", kBeat);
      if (link->speaks()) link->store()->multi_get({heartbeat_key((link->host() + 1) % link->hosts())});
    }
  }

  void end() {
    for (const auto& link : links_) link->end(kScope);
  }

  std::int64_t requests() const { return traffic_->requests; }
  std::int64_t bytes() const { return traffic_->bytes; }
  /// Of each store that was used one for calls, and where there are several hosts one that waits.
  std::int64_t connections() const { return traffic_->users * (links_.front()->hosts() > 1 ? 2 : 1); }

 private:
  std::shared_ptr<StoreTraffic> traffic_ = std::make_shared<StoreTraffic>();
  std::vector<GroupLinkPtr> links_;
};

Seconds since(Clock::time_point begin) { return Clock::now() - begin; }

void measure_rounds(SimulatedJob& job, StoreCosts& costs) {
  const std::int64_t requests = job.requests(), bytes = job.bytes();
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    job.reduce("round-" + std::to_string(round));
    seconds.push_back(since(begin).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  costs.round_seconds = seconds[kRounds / 2];
  costs.round_messages = (job.requests() - requests) / kRounds;
  costs.round_bytes = (job.bytes() - bytes) / kRounds;
}

void measure_rest(SimulatedJob& job, Seconds rest, StoreCosts& costs) {
  const auto begin = Clock::now();
  const std::int64_t requests = job.requests();
  for (auto next = begin; since(begin) < rest; std::this_thread::sleep_until(next)) {
    job.beat();
    next += kBeat;
  }
  costs.rest_requests_per_second = static_cast<double>(job.requests() - requests) / since(begin).count();
}

}  // namespace

StoreCosts measure_store(c10d::Store& store, int ranks, int hosts, const std::string& name, Seconds rest) {
  StoreCosts costs;
  const auto begin = Clock::now();
  SimulatedJob job(store, ranks, hosts, name);
  job.meet();
  job.reduce("open");
  costs.start_seconds = since(begin).count();
  costs.start_requests = job.requests();
  costs.start_bytes = job.bytes();
  measure_rounds(job, costs);
  measure_rest(job, rest, costs);
  costs.connections = job.connections();
  job.end();
  return costs;
}

}  // namespace torch_distinput
