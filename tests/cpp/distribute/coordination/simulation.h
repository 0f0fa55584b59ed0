// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "comm/host_machine.h"
#include "comm/host_member.h"
#include "distribute/coordination/agreement.h"
#include "distribute/coordination/loss_watch.h"

/// A deterministic simulation of a whole job: the state machines of meeting, tree, rounds and liveness, which
/// the library's threads run, here on a virtual clock, over a store and a network whose delays come from a
/// seed. A run with the same seed is the same run.
namespace torch_distinput::simulation {

/// Microseconds of virtual time.
using Time = std::int64_t;
inline constexpr Time kMs = 1'000;
inline constexpr Time kSecond = 1'000'000;

struct Fault {
  enum class Kind { kKill, kFreeze, kKillHost, kFreezeHost, kLoseStore, kLeave, kEndSilently };
  Kind kind;
  Time at;
  int rank = 0;
  Time length = 0;  ///< of a freeze
};

struct Job {
  int ranks = 2;
  int per_host = 1;
  std::uint64_t seed = 1;
  std::vector<std::int64_t> steps = {};  ///< of each rank's own stream
  Time step_time = 10 * kMs;             ///< of the consumer, about
  Time start_skew = kSecond;             ///< between the first and the last process
  Time hop = 200;                        ///< one way of a message, from this to three times as long
  double peer_timeout = 20;              ///< seconds
  std::vector<Fault> faults = {};
  Time until = 120 * kSecond;
};

/// What became of a rank.
struct Outcome {
  bool started = false;
  bool alive = true;
  bool met = false;
  std::int64_t steps = 0;  ///< taken
  std::int64_t rows = 0;   ///< that count in them, over all ranks
  bool ended = false;      ///< it took the last step
  std::string error;
  std::optional<Time> met_at, told_at, ended_at;
};

struct Costs {
  std::int64_t requests = 0;  ///< of the store
  std::int64_t bytes = 0;     ///< in and out of it
  std::size_t longest = 0;    ///< text of a request or an answer
};

class Simulation {
 public:
  explicit Simulation(Job job);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// Runs the job until nothing happens any more, or its time is over.
  void run();
  /// Runs until `done`; returns whether it came true.
  bool run_until(const std::function<bool()>& done);

  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  const Costs& costs() const { return costs_; }
  Time now() const { return now_; }
  /// Requests to the store that hosts of the group wait with: one each.
  std::int64_t speakers() const;

 private:
  struct Process;
  struct Event {
    Time at;
    std::uint64_t number;
    std::function<void()> what;
    bool operator>(const Event& other) const {
      return std::tie(at, number) > std::tie(other.at, other.number);
    }
  };

  Time delay() {
    return job_.hop + static_cast<Time>(random_() % static_cast<std::uint64_t>(2 * job_.hop + 1));
  }
  void at(Time when, std::function<void()> what);
  /// At the process, when it runs: later where it is frozen, never where it is dead.
  void at_process(int rank, Time when, std::function<void()> what);
  Process& process(int rank) { return *processes_[static_cast<std::size_t>(rank)]; }
  int host_of(int rank) const { return rank / job_.per_host; }
  std::string name_of_host(int rank) const { return "node" + std::to_string(host_of(rank)); }

  // Life of a process.
  void start(int rank);
  void lead(int rank);
  void connect(int rank, int leader);
  void beat(int rank);
  void look(int rank);
  void kill(int rank);
  void freeze(int rank, Time length);
  void lose_leader(int rank, const std::string& why);
  void strike(const Fault& fault);

  // Its link.
  void progress(int rank);
  void make_requests(int rank);
  void answer(int rank, const StoreRequest& request, const StoreAnswer& answer);
  void wait_for_entry(int rank);
  void push(const std::string& key);
  void send_to_member(int leader, int rank, const HostMessage& message);
  void send_to_leader(int rank, const HostMessage& message);
  void lose(int rank, const std::string& why);
  StoreAnswer serve(const StoreRequest& request);
  std::optional<std::string> read(const std::string& key);

  // Its program.
  void take_entries(int rank);
  void iterate(int rank);
  void produce(int rank);
  void consume(int rank);
  void hold_round(int rank);
  void fail(int rank, const std::string& why);
  void end_scope(int rank);

  Job job_;
  std::mt19937_64 random_;
  Time now_ = 0;
  std::uint64_t events_made_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<Outcome> outcomes_;
  std::map<int, int> leaders_;  // by host
  Costs costs_;

  bool store_lost_ = false;
  std::map<std::string, std::string> texts_;
  std::map<std::string, std::int64_t> numbers_;
  std::map<std::string, std::vector<int>> waiting_;  // ranks, by key
};

}  // namespace torch_distinput::simulation
