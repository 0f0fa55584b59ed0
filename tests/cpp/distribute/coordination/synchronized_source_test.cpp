// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/synchronized_source.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "distribute/multi_worker_testing.h"
#include "support/fakes.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput::distribute_testing {
namespace {

/// The steps that one rank took.
struct Seen {
  Steps steps = {};
  std::vector<std::int64_t> global_valid = {};
  std::vector<std::int64_t> row_start = {};
  std::vector<bool> is_last = {};
  std::string error = {};
  std::int64_t rounds = 0;
};

Seen see(DistributedIterator& iterator, std::size_t most = 10'000) {
  Seen seen;
  try {
    while (seen.steps.size() < most) {
      const auto step = iterator.next();
      if (!step) break;
      seen.steps.push_back(rows(*step));
      seen.global_valid.push_back(step->info().global_valid);
      seen.row_start.push_back(step->info().row_start);
      seen.is_last.push_back(step->info().is_last);
    }
  } catch (const c10::Error& error) {
    seen.error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    seen.error = error.what();
  }
  seen.rounds = iterator.stats().rounds;
  return seen;
}

using Streams = std::vector<std::int64_t>;  // rows of each rank

/// Rank r reads rows [1000 r, 1000 r + rows[r]) in batches of `batch`, through a plan or as a stream.
std::vector<Seen> run_uneven(const Streams& lengths, std::int64_t batch, bool stream, InputOptions options) {
  auto ranks = ranks_of(static_cast<int>(lengths.size()));
  return on_all(ranks, [&](std::int64_t number, Rank& rank) {
    const DistributedDataset distributed = rank.distribute_datasets_from_function(
        [&](const InputContext& context) {
          const std::int64_t first = 1000 * context.input_pipeline_id;
          Dataset own = Dataset::range(first, first + lengths[static_cast<std::size_t>(number)]);
          if (stream) own = own.filter([](const Element&) { return true; });
          return own.batch(batch);
        },
        options);
    DistributedIterator iterator = distributed.iterate();
    return see(iterator);
  });
}

TEST(SynchronizedStepSource, UnevenStreamsTakeTheSameStepsWithExactCounts) {
  std::mt19937 random(23);
  for (int trial = 0; trial < 40; ++trial) {
    Streams lengths(2 + random() % 4);
    for (auto& length : lengths) length = static_cast<std::int64_t>(random() % 60);
    const std::int64_t batch = 1 + static_cast<std::int64_t>(random() % 7);
    const auto all = run_uneven(lengths, batch, trial % 2 == 1, {});
    const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    const std::int64_t steps = (longest + batch - 1) / batch;
    std::int64_t before = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      const auto at = static_cast<std::size_t>(step);
      std::int64_t valid = 0;
      for (const auto length : lengths) valid += std::clamp<std::int64_t>(length - step * batch, 0, batch);
      for (const Seen& seen : all) {
        ASSERT_EQ(seen.error, "");
        ASSERT_EQ(std::ssize(seen.steps), steps);
        EXPECT_EQ(seen.global_valid[at], valid);
        EXPECT_EQ(seen.row_start[at], before);
        EXPECT_EQ(seen.is_last[at], step + 1 == steps);
      }
      before += valid;
    }
    for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
      Rows mine;
      for (const auto& step : all[rank].steps) mine.insert(mine.end(), step[0].begin(), step[0].end());
      Rows expected(static_cast<std::size_t>(lengths[rank]));
      std::iota(expected.begin(), expected.end(), 1000 * static_cast<std::int64_t>(rank));
      EXPECT_EQ(mine, expected);
    }
  }
}

/// Makes a random pause, often none, before each call of another store, so that each seed is another order of
/// events for the threads and ranks that use it.
class Paced final : public KeyValueStore {
 public:
  Paced(KeyValueStorePtr inner, std::uint32_t seed) : inner_(std::move(inner)), random_(seed) {}

  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }
  void expect_within(std::chrono::duration<double> limit) override { inner_->expect_within(limit); }
  void set(const std::string& key, const std::string& text) override { paced().set(key, text); }
  std::string compare_set(const std::string& key, const std::string& text) override {
    return paced().compare_set(key, text);
  }
  void append(const std::string& key, const std::string& text) override { paced().append(key, text); }
  std::optional<std::vector<std::string>> multi_get(const std::vector<std::string>& keys) override {
    return paced().multi_get(keys);
  }
  std::optional<std::string> await(const std::string& key, std::chrono::milliseconds limit) override {
    return paced().await(key, limit);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override { return paced().add(key, value); }
  void remove(const std::string& key) override { paced().remove(key); }

 private:
  KeyValueStore& paced() {
    unsigned draw = 0;
    {
      const std::lock_guard lock(mutex_);
      draw = static_cast<unsigned>(random_());
    }
    if (draw % 4 == 0) std::this_thread::yield();
    if (draw % 16 == 1) std::this_thread::sleep_for(std::chrono::microseconds(draw / 16 % 200));
    return *inner_;
  }

  KeyValueStorePtr inner_;
  std::mutex mutex_;
  std::mt19937 random_;
};

enum class Fault { kNone, kRow, kLeave, kClose };

/// One run of ranks whose streams, read-ahead, pace and fault are drawn from `seed`.
void run_paced(std::uint32_t seed) {
  std::mt19937 random(seed);
  Streams lengths(2 + random() % 3);
  for (auto& length : lengths) length = static_cast<std::int64_t>(random() % 10);
  const auto fault = static_cast<Fault>(random() % 4);
  const auto faulty = static_cast<std::int64_t>(random() % lengths.size());
  const auto at_row = 1 + static_cast<std::int64_t>(random() % 9);  // every rank opens its iterator
  const Tail tail = random() % 2 == 0 ? Tail::kZeroRows : Tail::kMerge;
  const InputOptions options{.per_replica_buffer_size = static_cast<std::int64_t>(random() % 3),
                             .tail = tail};
  std::vector<Rank> ranks;
  for (const auto& kv_store : in_memory_stores(static_cast<int>(lengths.size())))
    ranks.emplace_back(std::make_shared<Paced>(kv_store, static_cast<std::uint32_t>(random())), 1);
  const auto all = on_all(ranks, [&](std::int64_t number, Rank& rank) {
    const std::int64_t length = lengths[static_cast<std::size_t>(number)];
    const auto fail_at = [=](Element row) {
      if (fault == Fault::kRow && number == faulty && row.tensor().item<std::int64_t>() == at_row)
        throw std::runtime_error("the row is bad");
      return row;
    };
    DistributedIterator iterator =
        rank.distribute_datasets_from_function(
                [&](const InputContext&) { return Dataset::range(length).map(fail_at).batch(1); }, options)
            .iterate();
    const bool leaves = (fault == Fault::kLeave || fault == Fault::kClose) && number == faulty;
    Seen seen = see(iterator, leaves ? static_cast<std::size_t>(at_row) : 10'000);
    if (leaves && fault == Fault::kClose) iterator.close();
    return seen;
  });
  const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
  // A last step that some ranks lack is merged where each has a row in the one before it.
  const bool merged = tail == Tail::kMerge && *least > 0 && *least == *most - 1;
  const std::int64_t longest = *most - (merged ? 1 : 0);
  const bool fails = fault == Fault::kRow && at_row < lengths[static_cast<std::size_t>(faulty)];
  const bool leaves = fault == Fault::kLeave || fault == Fault::kClose;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Seen& seen = all[rank];
    if (leaves) {
      if (static_cast<std::int64_t>(rank) == faulty) {
        ASSERT_EQ(seen.error, "") << "seed " << seed;
        ASSERT_EQ(std::ssize(seen.steps), std::min(at_row, longest)) << "seed " << seed;
      } else if (!seen.error.empty()) {
        ASSERT_NE(seen.error.find("left its loop after " + std::to_string(at_row)), std::string::npos)
            << "seed " << seed << ": " << seen.error;
      } else {
        ASSERT_EQ(std::ssize(seen.steps), longest) << "seed " << seed;
      }
      continue;
    }
    ASSERT_EQ(std::ssize(seen.steps), fails ? at_row : longest) << "seed " << seed << ": " << seen.error;
    ASSERT_EQ(seen.error, all[0].error) << "seed " << seed;
    ASSERT_EQ(seen.global_valid, all[0].global_valid) << "seed " << seed;
    ASSERT_EQ(seen.error.find("the row is bad") != std::string::npos, fails) << "seed " << seed;
  }
}

/// `make test-tsan` runs 10,000 of them.
TEST(SynchronizedStepSource, EveryPaceAndFaultEndsInEqualStepsOrOneError) {
  const char* const wanted = std::getenv("TDI_INTERLEAVINGS");
  const std::uint32_t runs = wanted == nullptr ? 150 : static_cast<std::uint32_t>(std::stoul(wanted));
  for (std::uint32_t seed = 0; seed < runs && !HasFatalFailure(); ++seed) run_paced(seed);
}

TEST(SynchronizedStepSource, UntilFirstStopsEveryRankWithTheShortest) {
  for (const Tail tail : {Tail::kUntilFirst, Tail::kDrop}) {
    for (const Seen& seen : run_uneven({10, 40, 25}, 4, false, {.tail = tail})) {
      EXPECT_EQ(std::ssize(seen.steps), tail == Tail::kDrop ? 2 : 3);
      EXPECT_TRUE(seen.is_last.back());
    }
  }
}

TEST(SynchronizedStepSource, ManyStepsShareARound) {
  for (const Seen& seen : run_uneven({5000, 5000}, 1, false, {.per_replica_buffer_size = 64})) {
    EXPECT_EQ(seen.steps.size(), 5000U);
    EXPECT_GT(seen.rounds, 0);
    EXPECT_LT(seen.rounds, 4000);
  }
}

/// Rounds of two ranks that take 2,000 steps of one int64 row each.
std::int64_t rounds_of_tiny_steps(const Dataset& rows, InputOptions options = {}) {
  auto ranks = ranks_of(2);
  const auto all = on_all(ranks, [&](std::int64_t, Rank& rank) {
    DistributedIterator iterator =
        rank.distribute_datasets_from_function([&](const InputContext&) { return rows.batch(1); }, options)
            .iterate();
    return see(iterator);
  });
  EXPECT_EQ(all[0].error, "");
  EXPECT_EQ(all[0].steps.size(), 2000U);
  return std::max(all[0].rounds, all[1].rounds);
}

TEST(SynchronizedStepSource, NativeStreamsAgreeOnAsManyStepsAsTheirBytesAllow) {
  // Three steps ahead, the default, need that many or more; how many 64 ahead need depends on the machine.
  constexpr std::int64_t kRounds = 667;
  const Dataset rows = Dataset::range(2000);
  EXPECT_LT(rounds_of_tiny_steps(rows), kRounds);
  EXPECT_LT(rounds_of_tiny_steps(rows.filter([](const Element&) { return true; })), kRounds);
  EXPECT_GE(rounds_of_tiny_steps(rows.with_options({.prefetch_bytes = 8})), kRounds);
  EXPECT_GE(rounds_of_tiny_steps(rows.with_options({.prefetch = 3})), kRounds);
}

TEST(SynchronizedStepSource, UsersCodeDoesNotRunFurtherAheadThanRequested) {
  for (const bool reads_rows : {false, true}) {
    const auto all = [](const Element&) { return Element(at::ones({}, at::kBool)); };
    const Dataset rows =
        reads_rows ? Dataset::from_rows(std::make_shared<fakes::Rows>(2000, std::set<std::int64_t>{}, true))
                   : Dataset::range(2000).filter(op_testing::runs_user_code(all));
    EXPECT_GE(rounds_of_tiny_steps(rows), 667);
    EXPECT_LT(rounds_of_tiny_steps(rows.with_options({.prefetch = 64})), 400);
  }
}

struct Interrupt {};

/// One rank's loop over 20 steps of its own stream, without read-ahead: the thread that calls `next` reads
/// the stream and takes part in rounds, and continues after every interrupt.
class InterruptedLoop {
 public:
  Rows run(Rank& rank, const Dataset& stream, const std::function<void(std::size_t step)>& before_step) {
    DistributedIterator iterator =
        rank.distribute_datasets_from_function([&](const InputContext&) { return stream; },
                                               {.per_replica_buffer_size = 0})
            .iterate();
    Rows seen;
    for (std::size_t steps = 0;;) {
      before_step(steps);
      const InterruptScope ctrl_c([this] { look(); });
      try {
        const auto step = iterator.next();
        if (!step) return seen;
        ++steps;
        const auto parts = rows(*step);
        seen.insert(seen.end(), parts[0].begin(), parts[0].end());
      } catch (const Interrupt&) {
        ++interrupts;
      }
    }
  }

  std::atomic<int> interrupts{0};
  int interrupts_at = 1;  // interrupts every so many checks

 private:
  void look() {
    if (std::chrono::steady_clock::now() > deadline_) throw std::runtime_error("the loop hangs");
    if (++looks_ % interrupts_at == 0) throw Interrupt();
  }

  int looks_ = 0;
  std::chrono::steady_clock::time_point deadline_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(30);
};

Rows forty_from(std::int64_t first) {
  Rows rows(40);
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

TEST(SynchronizedStepSource, AnInterruptInARoundLosesNothing) {
  auto ranks = ranks_of(2);
  InterruptedLoop loops[2];
  const auto all = on_all(ranks, [&](std::int64_t number, Rank& rank) {
    // Rank 1 makes rank 0 wait in rounds until rank 0 is interrupted.
    const auto before_step = [&](std::size_t step) {
      while (number == 1 && loops[0].interrupts < static_cast<int>(step / 8)) std::this_thread::yield();
    };
    const Dataset stream = Dataset::range(100 * number, 100 * number + 40).batch(2);
    return loops[number].run(rank, stream, before_step);
  });
  EXPECT_EQ(all[0], forty_from(0));
  EXPECT_EQ(all[1], forty_from(100));
}

TEST(SynchronizedStepSource, AnInterruptInTheStreamLosesNothing) {
  auto ranks = ranks_of(2);
  const auto all = on_all(ranks, [&](std::int64_t number, Rank& rank) {
    const auto look = [](const Element&) {
      if (const auto& check = interrupt_check()) check();
      return true;
    };
    const Dataset stream = Dataset::range(100 * number, 100 * number + 40).filter(look).batch(2);
    InterruptedLoop loop;
    loop.interrupts_at = 11 + static_cast<int>(number);
    Rows seen = loop.run(rank, stream, [](std::size_t) {});
    EXPECT_GT(loop.interrupts, 2);
    return seen;
  });
  EXPECT_EQ(all[0], forty_from(0));
  EXPECT_EQ(all[1], forty_from(100));
}

TEST(SynchronizedStepSource, AnErrorOfOneRankFailsAllAtTheSameStep) {
  auto ranks = ranks_of(3);
  const auto all = on_all(ranks, [](std::int64_t number, Rank& rank) {
    const DistributedDataset distributed =
        rank.distribute_datasets_from_function([number](const InputContext&) {
          return Dataset::range(100)
              .map([number](Element element) {
                if (number == 1 && element.tensor().item<std::int64_t>() == 30)
                  throw std::runtime_error("row 30 is bad");
                return element;
              })
              .batch(5);
        });
    DistributedIterator iterator = distributed.iterate();
    return see(iterator);
  });
  for (const Seen& seen : all) {
    EXPECT_EQ(seen.steps.size(), 6U);
    EXPECT_NE(seen.error.find("row 30 is bad"), std::string::npos) << seen.error;
  }
  EXPECT_NE(all[0].error.find("rank 1 failed: at step 6"), std::string::npos) << all[0].error;
  EXPECT_EQ(all[0].error, all[1].error);
  EXPECT_EQ(all[0].error, all[2].error);
}

/// Three ranks read rows 0 to 49 of one stream in batches of 6; a row fails on a rank if `fails` returns
/// true.
std::vector<Seen> run_skipping(const std::function<bool(std::int64_t rank, std::int64_t row)>& fails) {
  auto ranks = ranks_of(3);
  return on_all(ranks, [&](std::int64_t number, Rank& rank) {
    const Dataset rows = Dataset::range(50).map([&fails, number](Element row) {
      if (fails(number, row.tensor().item<std::int64_t>())) throw std::runtime_error("the row is bad");
      return row;
    });
    DistributedIterator iterator =
        rank.distribute_dataset(rows.batch(6).with_options({.skip = Skip{}})).iterate();
    return see(iterator);
  });
}

TEST(SynchronizedStepSource, RowsThatFailOnEveryRankAreSkippedOnce) {
  const auto all = run_skipping([](std::int64_t, std::int64_t row) { return row % 7 == 3; });
  Rows rows;
  for (const Seen& seen : all) {
    EXPECT_EQ(seen.error, "");
    EXPECT_EQ(seen.global_valid, all[0].global_valid);
    EXPECT_EQ(seen.row_start, all[0].row_start);
    EXPECT_EQ(seen.row_start.back(), 42);
    EXPECT_GT(seen.rounds, 0);
    for (const auto& step : seen.steps) rows.insert(rows.end(), step[0].begin(), step[0].end());
  }
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(std::ssize(rows), 43);
  EXPECT_EQ(std::unique(rows.begin(), rows.end()), rows.end());
}

TEST(SynchronizedStepSource, RowsThatFailOnOneRankOnlyAreAnErrorOnAllAtThatStep) {
  for (const std::int64_t bad : {1, 13, 48, 49}) {
    const auto all =
        run_skipping([bad](std::int64_t rank, std::int64_t row) { return rank == 1 && row == bad; });
    for (const Seen& seen : all) {
      EXPECT_EQ(std::ssize(seen.steps), bad / 6) << bad;
      EXPECT_EQ(seen.error, all[0].error);
      EXPECT_NE(seen.error.find("rank 1 failed: at step " + std::to_string(bad / 6) +
                                ": it skipped other rows than rank 0"),
                std::string::npos)
          << seen.error;
    }
  }
}

TEST(SynchronizedStepSource, ARankThatLeavesIsNamedToTheRanksThatWaitForIt) {
  auto ranks = ranks_of(2);
  const auto all = on_all(ranks, [](std::int64_t number, Rank& rank) {
    DistributedIterator iterator = rank.distribute_datasets_from_function([](const InputContext&) {
                                         return Dataset::range(10'000).batch(1);
                                       })
                                       .iterate();
    return see(iterator, number == 0 ? 10'000 : 3);
  });
  EXPECT_EQ(all[1].error, "");
  EXPECT_NE(all[0].error.find("rank 1 left its loop after 3 steps"), std::string::npos) << all[0].error;
}

TEST(SynchronizedStepSource, ARankWhoseRowsAreOfAnotherTypeIsAnErrorOnAll) {
  auto ranks = ranks_of(2);
  const auto all = on_all(ranks, [](std::int64_t number, Rank& rank) {
    DistributedIterator iterator = rank.distribute_datasets_from_function([number](const InputContext&) {
                                         const Dataset rows = Dataset::range(4);
                                         return (number == 0 ? rows : rows.enumerate()).batch(1);
                                       })
                                       .iterate();
    return see(iterator);
  });
  EXPECT_EQ(all[0].error, all[1].error);
  EXPECT_NE(all[0].error.find("the ranks must agree on type of the elements"), std::string::npos)
      << all[0].error;
}

TEST(SynchronizedStepSource, EveryRankRestoresItsSavedPosition) {
  const Streams lengths{10, 37, 0};
  const auto run = [&](Tail tail, const std::vector<State>& states, std::size_t most) {
    auto ranks = ranks_of(3);
    return on_all(ranks, [&](std::int64_t number, Rank& rank) {
      const auto at = static_cast<std::size_t>(number);
      DistributedIterator iterator =
          rank.distribute_datasets_from_function(
                  [&](const InputContext&) { return Dataset::range(lengths[at]).batch(3); }, {.tail = tail})
              .iterate();
      if (!states.empty()) iterator.load(states[at]);
      const Seen seen = see(iterator, most);
      return std::pair(seen, iterator.save());
    });
  };
  for (const Tail tail : {Tail::kZeroRows, Tail::kPadded}) {
    const auto whole = run(tail, {}, 100);
    for (const std::size_t cut : {1U, 3U, 5U, 12U}) {
      std::vector<State> states;
      for (const auto& [seen, state] : run(tail, {}, cut)) states.push_back(state);
      const auto rest = run(tail, states, 100);
      for (std::size_t rank = 0; rank < 3; ++rank) {
        const Seen& all = whole[rank].first;
        const auto from = static_cast<std::ptrdiff_t>(cut);
        EXPECT_EQ(rest[rank].first.error, "");
        EXPECT_EQ(rest[rank].first.steps, Steps(all.steps.begin() + from, all.steps.end()));
        EXPECT_EQ(rest[rank].first.row_start,
                  std::vector<std::int64_t>(all.row_start.begin() + from, all.row_start.end()));
      }
    }
  }
}

TEST(SynchronizedStepSource, PaddedPartsOfAnEndedRankRepeatItsOwnLastRow) {
  const Dataset dataset =
      Dataset::range(6).batch(4).with_options({.auto_shard_policy = AutoShardPolicy::kOff});
  auto ranks = ranks_of(2);
  const auto all = on_all(ranks, [&](std::int64_t, Rank& rank) {
    DistributedIterator iterator = rank.distribute_dataset(dataset, {.tail = Tail::kPadded}).iterate();
    return see(iterator);
  });
  for (const Seen& seen : all) {
    EXPECT_EQ(seen.error, "");
    for (const auto& step : seen.steps) EXPECT_EQ(step[0].size(), 2U);
  }
}

/// The parts of rank 0's two replicas, and which of them have a value. Rank 0's stream ends first.
std::vector<std::pair<std::vector<Rows>, std::vector<bool>>> ended(std::int64_t rows, std::int64_t batch,
                                                                   Tail tail) {
  auto ranks = ranks_of(2, 2);
  const auto all = on_all(ranks, [&](std::int64_t number, Rank& rank) {
    const Dataset own = Dataset::range(number == 0 ? rows : 12).batch(batch);
    std::vector<std::pair<std::vector<Rows>, std::vector<bool>>> seen;
    DistributedIterator iterator =
        rank.distribute_dataset(with_policy(own, AutoShardPolicy::kOff), {.tail = tail}).iterate();
    while (const auto step = iterator.next())
      seen.emplace_back(distribute_testing::rows(*step), step->info().has_value);
    return seen;
  });
  return all[0];
}

// With fewer rows in a batch than replicas, the sizes of parts alternate: 1 1 | 1 0 | 1 1 | 1 0 ...
TEST(SynchronizedStepSource, PaddedPartsOfAnEndedRankHaveTheSharesOfTheirStep) {
  const auto seen = ended(3, 3, Tail::kPadded);
  std::vector<std::vector<std::size_t>> sizes;
  for (const auto& [parts, present] : seen) sizes.push_back({parts[0].size(), parts[1].size()});
  EXPECT_EQ(sizes, (std::vector<std::vector<std::size_t>>{
                       {1, 1}, {1, 0}, {1, 1}, {1, 0}, {1, 1}, {1, 0}, {1, 1}, {1, 0}}));
  for (std::size_t step = 2; step < seen.size(); ++step) {
    EXPECT_EQ(seen[step].first[0], Rows{2});
    EXPECT_EQ(seen[step].first[1], step % 2 == 0 ? Rows{1} : Rows{});
  }
}

TEST(SynchronizedStepSource, ARankWithoutRowsReturnsPartsOfTheTypeOfTheOthers) {
  for (const Tail tail : {Tail::kZeroRows, Tail::kPadded}) {
    auto ranks = ranks_of(2);
    const auto sizes = on_all(ranks, [tail](std::int64_t number, Rank& rank) {
      const auto to_floats = [](const Element&) { return Element(at::ones({3}, at::kFloat)); };
      DistributedIterator iterator =
          rank.distribute_datasets_from_function(
                  [&](const InputContext&) { return Dataset::range(number * 5).map(to_floats).batch(4); },
                  {.tail = tail})
              .iterate();
      std::vector<std::vector<std::int64_t>> seen;
      while (const auto step = iterator.next()) {
        EXPECT_EQ((*step)[0].tensor().scalar_type(), at::kFloat);
        seen.push_back((*step)[0].tensor().sizes().vec());
      }
      return seen;
    });
    const std::int64_t rows = tail == Tail::kPadded ? 4 : 0;
    EXPECT_EQ(sizes[0], (std::vector<std::vector<std::int64_t>>{{rows, 3}, {rows, 3}}));
    EXPECT_EQ(sizes[1].size(), 2U);
  }
}

// Batches after a SHARD_HINT may count as endless; then `next` ends at a step that lacks a part.
TEST(SynchronizedStepSource, AllRanksEndTogetherAtAStepThatLacksAPart) {
  const Dataset dataset =
      with_policy(Dataset::range(11).shard(kShardHint, 0).batch(4), AutoShardPolicy::kHint);
  auto ranks = ranks_of(4, 2);
  const auto all = on_all(ranks, [&](std::int64_t, Rank& rank) {
    const DistributedDataset distributed = rank.distribute_dataset(dataset, {.peer_timeout = 10});
    EXPECT_FALSE(distributed.partial_batch_handling());
    DistributedIterator iterator = distributed.iterate();
    return see(iterator);
  });
  for (const Seen& seen : all) {
    EXPECT_EQ(seen.error, "");
    EXPECT_EQ(seen.steps.size(), all[0].steps.size());
    EXPECT_TRUE(seen.is_last.back());
  }
}

TEST(SynchronizedStepSource, RepeatIsRefused) {
  auto ranks = ranks_of(2);
  EXPECT_THROW(ranks[0].distribute_datasets_from_function(
                   [](const InputContext&) { return Dataset::range(4).batch(2); },
                   {.tail = Tail::kRepeat, .peer_timeout = 0.01}),
               c10::ValueError);
}

}  // namespace
}  // namespace torch_distinput::distribute_testing
