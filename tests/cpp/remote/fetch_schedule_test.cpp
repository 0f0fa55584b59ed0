// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/fetch_schedule.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "remote/simulated_server.h"

namespace torch_distinput {
namespace {

std::vector<Nanos> times_of(const SimulatedFetches& run) {
  std::vector<Nanos> times;
  for (const auto& [fetch, end] : run.done) times.push_back(end - run.began.at(fetch));
  std::sort(times.begin(), times.end());
  return times;
}

/// Adds `count` fetches, with at most `open` of them under way.
void feed(SimulatedFetches& run, int count, int open) {
  FetchId next = 1;
  while (run.done.size() < static_cast<std::size_t>(count)) {
    while (next <= static_cast<FetchId>(count) && next - run.done.size() <= static_cast<std::size_t>(open))
      run.add(next++);
    run.run(10 * kMillisecond);
  }
}

TEST(FetchSchedule, DoesEachFetchOnce) {
  SimulatedFetches run({}, 1, [](Nanos, int) { return SimulatedAnswer{}; });
  for (FetchId id = 1; id <= 1000; ++id) run.add(id);
  run.run();
  EXPECT_EQ(run.done.size(), 1000u);
  EXPECT_EQ(run.schedule.counts().retries, 0);
  EXPECT_LE(run.most_running, ConcurrencyLimit::kMost);
}

TEST(FetchSchedule, StartsInOrderButForThoseThatAreUrged) {
  SimulatedFetches run({}, 1, [](Nanos, int) { return SimulatedAnswer{}; });
  for (FetchId id = 1; id <= 100; ++id) run.add(id);
  run.schedule.urge(90);
  run.run();
  EXPECT_LT(run.done.at(90), run.done.at(60));
  EXPECT_LE(run.done.at(1), run.done.at(60));
}

TEST(FetchSchedule, CountsTheTimesOfItsRequests) {
  const SimulatedAnswer answer{.first_byte = 10 * kMillisecond, .body = 5 * kMillisecond};
  SimulatedFetches run({}, 1, [&](Nanos, int) { return answer; });
  run.now = kSecond;  // the clock began earlier
  for (FetchId id = 1; id <= 1000; ++id) run.add(id);
  run.run();
  const FetchCounts all = run.schedule.counts();
  EXPECT_NEAR(static_cast<double>(all.running), 1000 * 15.0 * kMillisecond, 1.0 * kSecond);
  EXPECT_NEAR(static_cast<double>(all.unanswered), 1000 * 10.0 * kMillisecond, 1.0 * kSecond);
  EXPECT_NEAR(static_cast<double>(all.busy), static_cast<double>(run.now - kSecond), 1.0 * kMillisecond);
  EXPECT_GT(all.full, all.busy / 2);
  EXPECT_NEAR(static_cast<double>(all.answers.quantile(0.5)), 10.0 * kMillisecond, 1.0 * kMillisecond);
  run.now += kSecond;
  run.add(1001);
  run.run();
  FetchCounts last = run.schedule.counts();
  last -= all;
  EXPECT_EQ(last.requests, 1);
  EXPECT_EQ(last.full, 0);
  EXPECT_NEAR(static_cast<double>(last.busy), 15.0 * kMillisecond, 1.0 * kMillisecond);
  EXPECT_EQ(run.schedule.limit_of_busiest(), run.schedule.limit("server"));
}

TEST(FetchSchedule, RepeatsWithinItsBudget) {
  std::mt19937_64 random(7);
  SimulatedFetches run({}, 1, [&](Nanos, int) {
    SimulatedAnswer answer;
    if (random() % 100 == 0) answer.ending = Ending::kFailed;
    return answer;
  });
  feed(run, 5000, 200);
  EXPECT_EQ(run.done.size(), 5000u);
  const FetchCounts& counts = run.schedule.counts();
  EXPECT_LE(counts.retries + counts.hedges, 5000 * 0.03);
  EXPECT_GT(counts.retries, 20);
}

TEST(FetchSchedule, RepeatsFirstWhatSomebodyWaitsFor) {
  int asked = 0;
  SimulatedFetches run({}, 1, [&](Nanos, int) {
    return ++asked <= 100 ? SimulatedAnswer{.ending = Ending::kFailed}
                          : SimulatedAnswer{.ending = Ending::kRefused};
  });
  for (FetchId id = 1; id <= 100; ++id) run.add(id);
  run.run(kSecond);
  run.schedule.urge(100);
  run.run(kSecond);
  EXPECT_TRUE(run.refused.contains(100)) << "it does not wait until all others were repeated";
  EXPECT_LT(run.refused.size(), 50u);
}

TEST(FetchSchedule, LivesThroughTenSecondsOfRefusalsAndIsBackSoon) {
  SimulatedFetches run({}, 1, [](Nanos now, int) {
    SimulatedAnswer answer;
    if (now > kSecond && now < 11 * kSecond) answer.ending = Ending::kThrottled;
    return answer;
  });
  feed(run, 20'000, 300);
  EXPECT_EQ(run.given_up.size(), 0u);
  // Those that were asked for in the time of refusals do not wait much longer.
  for (const auto& [fetch, end] : run.done) {
    if (run.began.at(fetch) < 11 * kSecond) {
      EXPECT_LT(end, 21 * kSecond) << fetch;
    }
  }
  EXPECT_LT(run.schedule.counts().throttled, 400);
  EXPECT_GE(run.schedule.limit("server"), ConcurrencyLimit::kFirst);
}

TEST(FetchSchedule, WaitsAsLongAsTheServerAsks) {
  bool first = true;
  SimulatedFetches run({}, 1, [&](Nanos, int) {
    SimulatedAnswer answer;
    if (std::exchange(first, false)) {
      answer.ending = Ending::kThrottled;
      answer.retry_after = 5 * kSecond;
    }
    return answer;
  });
  run.add(1);
  run.add(2);
  run.run();
  EXPECT_GE(std::max(run.done.at(1), run.done.at(2)), 5 * kSecond);
  EXPECT_LT(std::min(run.done.at(1), run.done.at(2)), kSecond);
}

TEST(FetchSchedule, GivesUpWhereNothingComes) {
  SimulatedFetches run({}, 1, [](Nanos, int) { return SimulatedAnswer{.is_silent = true}; });
  run.add(1, 30 * kSecond);
  run.run();
  EXPECT_TRUE(run.given_up.contains(1));
  EXPECT_GE(run.now, 30 * kSecond);
  EXPECT_LT(run.now, 31 * kSecond);
  EXPECT_GE(run.schedule.counts().stalled, 2);
}

TEST(FetchSchedule, GivesUpWhereOnlyErrorsCome) {
  for (const Ending ending : {Ending::kFailed, Ending::kThrottled}) {
    SimulatedFetches run({}, 1, [&](Nanos, int) { return SimulatedAnswer{.ending = ending}; });
    run.add(1, 30 * kSecond);
    run.run();
    EXPECT_TRUE(run.given_up.contains(1));
    EXPECT_LT(run.now, 31 * kSecond);
  }
}

TEST(FetchSchedule, AsksAgainAtOnceWhereTheServerNamesAnotherPlace) {
  int asked = 0;
  SimulatedFetches run({}, 1, [&](Nanos, int) {
    SimulatedAnswer answer;
    if (++asked <= 2) answer.ending = Ending::kAgain;
    return answer;
  });
  run.add(1);
  run.run();
  EXPECT_EQ(asked, 3);
  EXPECT_LT(run.now, 100 * kMillisecond);
  EXPECT_EQ(run.schedule.counts().retries, 0);
}

TEST(FetchSchedule, DoublesLateRequestsWithinTheirShare) {
  const auto run_with = [](double share) {
    std::mt19937_64 random(3);
    FetchRules rules;
    rules.hedge_share = share;
    SimulatedFetches run(rules, 1, [&](Nanos, int) {
      SimulatedAnswer answer;
      if (random() % 100 < 2) answer.first_byte = 20 * (answer.first_byte + answer.body);
      return answer;
    });
    feed(run, 5000, 32);
    const auto times = times_of(run);
    return std::pair(times[times.size() * 99 / 100], run.schedule.counts());
  };
  const auto [late_with, with] = run_with(0.02);
  const auto [late_without, without] = run_with(0);
  EXPECT_LE(with.hedges, 5000 * 0.02 + 4);
  EXPECT_GT(with.hedges_won, with.hedges / 2);
  EXPECT_LE(without.hedges, 1);
  EXPECT_LT(late_with, late_without / 2);
}

// Bodies that trickle

/// One in `in` answers brings its body at `rate`; the others bring it at once.
SimulatedFetches::Server trickling(std::mt19937_64& random, int in, double rate) {
  return [&random, in, rate](Nanos, int) {
    SimulatedAnswer answer;
    if (random() % static_cast<std::uint64_t>(in) == 0) answer.rate = rate;
    return answer;
  };
}

TEST(FetchSchedule, AsksForTheRestOfABodyThatTrickles) {
  for (const double rate : {10.0, 1'000.0, 100'000.0}) {
    std::mt19937_64 random(5);
    SimulatedFetches run({}, 1, trickling(random, 50, rate));
    run.bytes_of_body = 8 << 20;
    feed(run, 2000, 32);
    const FetchCounts& counts = run.schedule.counts();
    EXPECT_GT(counts.stalled, 20);
    EXPECT_EQ(counts.stalled, counts.retries);
    EXPECT_LE(counts.retries, 2000 * 0.03);
    EXPECT_LT(times_of(run).back(), 5 * kSecond) << rate;
  }
}

TEST(FetchSchedule, AsksForTrickledRestsWithinItsBudget) {
  std::mt19937_64 random(5);
  SimulatedFetches run({}, 1, trickling(random, 2, 10));
  run.bytes_of_body = 8 << 20;
  feed(run, 1000, 64);
  const FetchCounts& counts = run.schedule.counts();
  // Ten at first, a tenth of the requests, two a second, and those that were worth it.
  EXPECT_LE(counts.retries, 10 + 100 + 2 * (run.now / kSecond + 1) + 1000);
  EXPECT_EQ(counts.requests, 1000 + counts.retries + counts.hedges);
  EXPECT_TRUE(run.given_up.empty());
}

TEST(FetchSchedule, GivesUpWhereBodiesOnlyTrickle) {
  for (const double rate : {10.0, 500.0}) {
    SimulatedFetches run({}, 1, [&](Nanos, int) { return SimulatedAnswer{.rate = rate}; });
    run.bytes_of_body = 8 << 20;
    run.add(1, 30 * kSecond);
    run.run();
    EXPECT_TRUE(run.given_up.contains(1));
    EXPECT_GE(run.now, 30 * kSecond);
    EXPECT_LT(run.now, 62 * kSecond) << rate;
    EXPECT_LE(run.schedule.counts().requests, 7);
  }
}

TEST(FetchSchedule, LetsSlowServersGoOn) {
  SimulatedFetches run({}, 1, [](Nanos, int) { return SimulatedAnswer{.rate = 2'000}; });
  run.bytes_of_body = 1 << 20;
  for (FetchId id = 1; id <= 20; ++id) run.add(id, 30 * kSecond);
  run.run();
  EXPECT_EQ(run.done.size(), 20u);
  EXPECT_EQ(run.schedule.counts().requests, 20);
}

TEST(FetchSchedule, LetsAServerThatHasBecomeSlowGoOn) {
  SimulatedFetches run({}, 1, [](Nanos now, int) {
    SimulatedAnswer answer;
    answer.rate = now < 10 * kSecond ? 20e6 : 40e3;
    return answer;
  });
  run.bytes_of_body = 2 << 20;
  feed(run, 3000, 64);
  const FetchCounts& counts = run.schedule.counts();
  EXPECT_EQ(run.done.size(), 3000u);
  EXPECT_GT(run.now, 60 * kSecond);
  EXPECT_LT(counts.retries, 60) << "soon they are compared with each other";
}

TEST(FetchSchedule, DoesNotBreakOffTextsThatBeginAnew) {
  bool first = true;
  SimulatedFetches run({}, 1, [&](Nanos, int) {
    return SimulatedAnswer{.rate = std::exchange(first, false) ? 50'000.0 : 0.0};
  });
  run.add(1, 30 * kSecond, /*goes_on=*/false);
  for (FetchId id = 2; id <= 200; ++id) run.add(id);
  run.run();
  EXPECT_EQ(run.schedule.counts().retries, 0);
  EXPECT_GT(run.done.at(1), 20 * kSecond);
}

TEST(FetchSchedule, GivesUpTextsOfWhichAlwaysTheSameComes) {
  SimulatedFetches run({}, 1,
                       [](Nanos, int) { return SimulatedAnswer{.ending = Ending::kFailed, .cut = 0.5}; });
  run.add(1, 30 * kSecond, /*goes_on=*/false);
  run.run();
  EXPECT_TRUE(run.given_up.contains(1));
  EXPECT_LT(run.now, 31 * kSecond);
}

TEST(FetchSchedule, GoesOnWhereEachAnswerBringsALittle) {
  int asked = 0;
  SimulatedFetches run({}, 1, [&](Nanos, int) {
    return ++asked > 30 ? SimulatedAnswer{} : SimulatedAnswer{.ending = Ending::kFailed, .cut = 0.1};
  });
  run.add(1, 20 * kSecond);
  run.run();
  EXPECT_TRUE(run.done.contains(1));
  EXPECT_GT(run.now, 30 * kSecond);
}

TEST(FetchSchedule, FindsHowManyRequestsFillTheLink) {
  struct Case {
    SimulatedLink link;
    Nanos latency;
    std::uint64_t bytes;
  };
  for (const auto& [link, latency, bytes] :
       {Case{{1e9, 50e6}, 30 * kMillisecond, 1 << 20}, Case{{1e9, 85e6}, 100 * kMillisecond, 8 << 20},
        Case{{100e6, 100e6}, 10 * kMillisecond, 100'000}, Case{{3e9, 85e6}, 30 * kMillisecond, 4 << 20}}) {
    std::mt19937_64 random(11);
    SimulatedFetches run({}, 1, [&](Nanos, int) {
      const double factor = std::uniform_real_distribution<double>(0.7, 1.3)(random);
      return SimulatedAnswer{.first_byte = static_cast<Nanos>(factor * static_cast<double>(latency))};
    });
    run.link = link;
    run.bytes_of_body = bytes;
    const int count = static_cast<int>(20 * link.bytes_per_second / static_cast<double>(bytes));
    feed(run, count, 600);
    const double rate =
        static_cast<double>(count) * static_cast<double>(bytes) / (static_cast<double>(run.now) / kSecond);
    EXPECT_GT(rate, 0.9 * link.bytes_per_second) << "limit " << run.schedule.limit("server");
    EXPECT_LE(run.schedule.limit("server"), 512);
  }
}

TEST(FetchSchedule, NeitherLosesNorRepeatsUnderRandomFaults) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto chance = [&](int in) { return random() % static_cast<std::uint64_t>(in) == 0; };
    SimulatedFetches run({}, seed, [&](Nanos, int) {
      SimulatedAnswer answer;
      answer.first_byte = static_cast<Nanos>(random() % 50) * kMillisecond;
      answer.body = static_cast<Nanos>(random() % 50) * kMillisecond;
      if (chance(20)) answer.ending = Ending::kFailed;
      if (chance(20)) answer.ending = Ending::kThrottled;
      if (chance(50)) answer.ending = Ending::kAgain;
      if (chance(100)) answer.ending = Ending::kRefused;
      if (chance(100)) answer.is_silent = true;
      return answer;
    });
    for (FetchId id = 1; id <= 100; ++id) run.add(id);
    run.run();
    ASSERT_EQ(run.done.size() + run.refused.size(), 100u) << "seed " << seed;
    ASSERT_EQ(run.given_up.size(), 0u) << "seed " << seed;
    ASSERT_EQ(run.schedule.running("server"), 0) << "seed " << seed;
  }
}

}  // namespace
}  // namespace torch_distinput
