// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/simulation.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include <gtest/gtest.h>

namespace torch_distinput::simulation {
namespace {

using Kind = Fault::Kind;

/// Schedules of a run; more with the environment's TDI_SCHEDULES.
int schedules() {
  const char* const asked = std::getenv("TDI_SCHEDULES");
  return asked == nullptr ? 3'000 : std::atoi(asked);
}

bool any_of(const std::vector<Outcome>& all, bool (*holds)(const Outcome&)) {
  return std::any_of(all.begin(), all.end(), holds);
}

/// For the message of a test that fails.
std::string trace(const Job& job, const Simulation& run) {
  std::string text =
      "seed " + std::to_string(job.seed) + ", " + std::to_string(job.per_host) + " ranks a host";
  for (const Fault& fault : job.faults)
    text += "\n  fault " + std::to_string(static_cast<int>(fault.kind)) + " at " + std::to_string(fault.at) +
            " of rank " + std::to_string(fault.rank) + " for " + std::to_string(fault.length);
  for (std::size_t rank = 0; rank < run.outcomes().size(); ++rank) {
    const Outcome& one = run.outcomes()[rank];
    text += "\n  rank " + std::to_string(rank) + " of " + std::to_string(job.steps[rank]) + " steps" +
            (one.alive ? "" : ", dead") + ", met at " + std::to_string(one.met_at.value_or(-1)) + ", took " +
            std::to_string(one.steps) + (one.ended ? ", ended at " + std::to_string(*one.ended_at) : "") +
            ", told at " + std::to_string(one.told_at.value_or(-1)) + " '" + one.error + "'";
  }
  return text;
}

TEST(Simulation, TheSameSeedIsTheSameRun) {
  const Job job{.ranks = 6, .per_host = 3, .seed = 4, .steps = {3, 9, 4, 1, 0, 7}};
  Simulation one(job), other(job);
  one.run(), other.run();
  EXPECT_EQ(one.costs().bytes, other.costs().bytes);
  EXPECT_EQ(trace(job, one), trace(job, other));
}

// What a fault may do.

bool freezes(const Fault& fault) { return fault.kind == Kind::kFreeze || fault.kind == Kind::kFreezeHost; }

/// Whether no process of the host is there to speak for the one that is struck.
bool strikes_host(const Job& job, const Fault& fault) {
  if (fault.kind != Kind::kFreeze && fault.kind != Kind::kKill)
    return fault.kind == Kind::kFreezeHost || fault.kind == Kind::kKillHost;
  const int first = fault.rank / job.per_host * job.per_host;
  for (int rank = first; rank < std::min(first + job.per_host, job.ranks); ++rank) {
    const auto struck = [&](const Fault& one) { return one.rank == rank && one.kind != Kind::kLeave; };
    if (std::none_of(job.faults.begin(), job.faults.end(), struck)) return false;
  }
  return true;
}

/// How long a host is frozen at most: one freeze may go on from another.
Time frozen(const Job& job, int host) {
  Time length = 0;
  for (const Fault& fault : job.faults)
    if (freezes(fault) && fault.rank / job.per_host == host) length += fault.length;
  return length;
}

/// Whether other ranks may get an error because of it. A frozen rank is slow, not lost, for `peer_timeout`; a
/// host is lost after five seconds.
bool may_fail(const Job& job, const Fault& fault) {
  if (fault.kind == Kind::kEndSilently) return false;
  if (!freezes(fault)) return true;
  return strikes_host(job, fault) && frozen(job, fault.rank / job.per_host) > 4 * kSecond;
}

/// Whether a rank has a host of its own.
bool alone(const Job& job, int rank) {
  return job.per_host == 1 || (rank % job.per_host == 0 && rank == job.ranks - 1);
}

/// Whether an error says what this fault has done.
bool names(const Job& job, const Fault& fault, const std::string& error) {
  if (fault.kind == Kind::kLoseStore) return error.find("the store is lost") != std::string::npos;
  const bool whole = strikes_host(job, fault);
  const int host = fault.rank / job.per_host;
  for (int rank = 0; rank < job.ranks; ++rank) {
    if (whole ? rank / job.per_host != host : rank != fault.rank) continue;
    const std::string name = "rank " + std::to_string(rank) + " ";
    if (error.rfind(name, 0) == 0) return true;
  }
  return (whole || alone(job, fault.rank)) && error.rfind("host node" + std::to_string(host) + " (", 0) == 0;
}

/// A job with up to two faults.
Job random_job(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
  };
  Job job{.seed = seed};
  job.ranks = static_cast<int>(below(20) == 0 ? 60 + below(30) : 2 + below(12));
  job.per_host = static_cast<int>(1 + below(4));
  const std::int64_t most = below(120);
  for (int rank = 0; rank < job.ranks; ++rank) job.steps.push_back(below(3) == 0 ? most : below(most + 1));
  job.step_time = (1 + below(30)) * kMs;
  job.start_skew = below(2) == 0 ? 20 * kMs : kSecond;
  job.hop = 50 + below(2'000);
  for (std::int64_t left = below(3); left > 0; --left) {
    Fault fault{static_cast<Kind>(below(7)), below(2 * kSecond), static_cast<int>(below(job.ranks)), 0};
    // Nothing in between, where the phases of heartbeats decide.
    fault.length = below(2) == 0 ? below(4 * kSecond) : (7 + below(4)) * kSecond;
    job.faults.push_back(fault);
  }
  return job;
}

/// Whether a rank died before the group could know of it by a heartbeat: those that wait for its handshake
/// are told after `peer_timeout`.
bool died_unseen(const Simulation& run) {
  return any_of(run.outcomes(), [](const Outcome& one) { return !one.alive && one.steps == 0; });
}

void check(const Job& job, const Simulation& run) {
  const std::string about = trace(job, run);
  const std::int64_t longest = *std::max_element(job.steps.begin(), job.steps.end());
  std::int64_t rows = 0;
  for (std::size_t rank = 0; rank < job.steps.size(); ++rank)
    rows += job.steps[rank] * static_cast<std::int64_t>(1 + rank % 3);
  std::vector<Fault> faults;
  std::copy_if(job.faults.begin(), job.faults.end(), std::back_inserter(faults),
               [&](const Fault& fault) { return may_fail(job, fault); });
  for (const Outcome& one : run.outcomes()) {
    if (!one.alive) continue;
    if (one.ended) {
      // Equal steps, with exact counts.
      ASSERT_EQ(one.steps, longest) << about;
      ASSERT_EQ(one.rows, rows) << about;
      continue;
    }
    ASSERT_LE(one.steps, longest) << about;
    if (one.error.empty()) {
      // It waits: only for a rank that never came.
      ASSERT_TRUE(died_unseen(run)) << about;
      continue;
    }
    // No false death, and every failure is named.
    if (one.error == "left") continue;
    ASSERT_TRUE(std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
      return names(job, fault, one.error);
    })) << about;
  }
}

TEST(Simulation, WhateverHappensStepsAreEqualAndFailuresAreNamed) {
  int failed = 0, ended = 0;
  for (int i = 0; i < schedules(); ++i) {
    const Job job = random_job(static_cast<std::uint64_t>(i));
    Simulation run(job);
    run.run();
    check(job, run);
    if (::testing::Test::HasFatalFailure()) return;
    failed += any_of(run.outcomes(), [](const Outcome& one) { return !one.error.empty(); }) ? 1 : 0;
    ended += any_of(run.outcomes(), [](const Outcome& one) { return one.ended; }) ? 1 : 0;
  }
  EXPECT_GT(failed, schedules() / 8);
  EXPECT_GT(ended, schedules() / 5);
}

/// A job of long streams in which `fault` strikes when all are under way.
Job struck(std::uint64_t seed, int ranks, int per_host, Kind kind) {
  std::mt19937_64 random(seed);
  Job job{.ranks = ranks,
          .per_host = per_host,
          .seed = seed,
          .steps = std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 2'000)};
  job.faults.push_back({kind, 3 * kSecond + static_cast<Time>(random() % kSecond),
                        static_cast<int>(random() % static_cast<std::uint64_t>(ranks)), 0});
  return job;
}

/// The time from the fault until the last rank knew of it.
Time told_within(const Job& job, const Simulation& run) {
  Time last = 0;
  for (const Outcome& one : run.outcomes()) {
    if (!one.alive) continue;
    EXPECT_TRUE(one.told_at) << trace(job, run);
    EXPECT_TRUE(names(job, job.faults.front(), one.error)) << trace(job, run);
    last = std::max(last, one.told_at.value_or(job.until) - job.faults.front().at);
  }
  return last;
}

TEST(Simulation, ADeadProcessIsKnownToAllWithinASecond) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Job job = struck(seed, 24, 8, Kind::kKill);
    Simulation run(job);
    run.run();
    EXPECT_LE(told_within(job, run), kSecond);
  }
}

TEST(Simulation, ADeadHostIsKnownToAllWithinSixSeconds) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Job job = struck(seed, 24, 8, Kind::kKillHost);
    Simulation run(job);
    run.run();
    const Time within = told_within(job, run);
    EXPECT_LE(within, 6 * kSecond + 200 * kMs);
    EXPECT_GE(within, 4 * kSecond);
  }
}

TEST(Simulation, ALostStoreIsKnownToAllWithinTwoSeconds) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Job job = struck(seed, 24, 8, Kind::kLoseStore);
    Simulation run(job);
    run.run();
    EXPECT_LE(told_within(job, run), 2 * kSecond);
  }
}

TEST(Simulation, AFrozenProcessWithOthersOnItsHostIsSlowNotLost) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Job job{.ranks = 9, .per_host = 3, .seed = seed, .steps = std::vector<std::int64_t>(9, 300)};
    job.faults.push_back({Kind::kFreeze, 2 * kSecond, static_cast<int>(seed % 9), 12 * kSecond});
    Simulation run(job);
    run.run();
    for (const Outcome& one : run.outcomes()) ASSERT_TRUE(one.ended) << trace(job, run);
  }
}

/// What a job of `ranks` ranks, 8 a host, costs the store.
struct Bill {
  std::int64_t hosts, speakers;
  Costs start, round;  // meeting, and a handshake or a round
};
Bill bill_of(int ranks) {
  const Job job{.ranks = ranks,
                .per_host = 8,
                .seed = 7,
                .steps = std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 0)};
  Simulation run(job);
  EXPECT_TRUE(
      run.run_until([&] { return !any_of(run.outcomes(), [](const Outcome& one) { return !one.met; }); }));
  const Costs start = run.costs();
  run.run();
  for (const Outcome& one : run.outcomes()) EXPECT_TRUE(one.ended);
  // A handshake and the round in which all tell that they have no steps.
  Costs both = run.costs();
  return {ranks / 8,
          run.speakers(),
          start,
          {(both.requests - start.requests) / 2, (both.bytes - start.bytes) / 2, both.longest}};
}

TEST(Simulation, WhatTheStoreCarriesGrowsWithTheHosts) {
  for (const int ranks : {64, 512, 4'096, 16'384}) {
    const Bill bill = bill_of(ranks);
    ::testing::Test::RecordProperty("start_" + std::to_string(ranks), static_cast<int>(bill.start.requests));
    std::cout << ranks << " ranks on " << bill.hosts << " hosts: start " << bill.start.requests
              << " requests, " << bill.start.bytes << " bytes; a round " << bill.round.requests
              << " requests, " << bill.round.bytes << " bytes, longest text " << bill.round.longest << '\n';
    EXPECT_EQ(bill.speakers, bill.hosts);
    EXPECT_LE(bill.start.requests, 200 * bill.hosts);
    EXPECT_LE(bill.start.bytes, 9'000 * bill.hosts);
    EXPECT_LE(bill.round.requests, 5 * bill.hosts);
    EXPECT_LE(bill.round.bytes, 1'500 * bill.hosts);
    EXPECT_LE(bill.round.longest, 32'000);
  }
}

}  // namespace
}  // namespace torch_distinput::simulation
