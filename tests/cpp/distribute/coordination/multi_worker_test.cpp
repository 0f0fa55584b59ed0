// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "distribute/multi_worker_testing.h"
#include "io/sample_files.h"
#include "torch_distinput/files.h"

namespace torch_distinput::distribute_testing {
namespace {

TEST(MultiWorker, RanksWithoutASeedAgreeOnOne) {
  auto ranks = ranks_of(3);
  const auto by_rank = on_all(ranks, [](std::int64_t, Rank& rank) {
    const DistributedDataset distributed = rank.distribute_dataset(Dataset::range(100).shuffle().batch(9));
    std::vector<Steps> epochs;
    for (int epoch = 0; epoch < 2; ++epoch) {
      DistributedIterator iterator = distributed.iterate();
      epochs.push_back(steps(iterator));
    }
    return epochs;
  });
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<std::int64_t> rows;
    for (const auto& mine : by_rank)
      for (const auto& step : mine[epoch]) rows.insert(rows.end(), step[0].begin(), step[0].end());
    std::sort(rows.begin(), rows.end());
    Rows expected(100);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(rows, expected);
  }
  EXPECT_NE(by_rank[0][0], by_rank[0][1]);
}

/// The rows that a run of some steps delivered, and its state afterwards.
struct Run {
  Rows rows;
  State state;
  std::int64_t steps = 0;
};

Run go_on(const DistributedDataset& dataset, const State* from, std::int64_t most) {
  DistributedIterator iterator = dataset.iterate();
  if (from != nullptr) iterator.load(*from);
  Run run;
  for (; run.steps < most; ++run.steps) {
    const auto step = iterator.next();
    if (!step) break;
    for (const Rows& part : rows(*step)) run.rows.insert(run.rows.end(), part.begin(), part.end());
  }
  run.state = iterator.save();
  return run;
}

/// Runs a chain of restarts at random points, each on another number of processes and replicas, with other
/// batches, threads and read-ahead.
void expect_chain_delivers_every_row_once(std::mt19937& random) {
  std::optional<State> saved;
  Rows delivered;
  for (const int num_ranks : {8, 6, 11, 1, 3}) {
    const auto draw = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    const Dataset dataset = Dataset::range(1000)
                                .shuffle({.seed = 3})
                                .batch(draw(1, 40))
                                .with_options({.num_threads = draw(1, 2)});
    const InputOptions options{.per_replica_buffer_size = draw(0, 3),
                               .split = draw(0, 1) == 0 ? Split::kTf : Split::kBalanced};
    const std::int64_t most = num_ranks == 3 ? 1000 : draw(1, 12);
    auto ranks = ranks_of(num_ranks, draw(1, 2));
    const auto runs = on_all(ranks, [&](std::int64_t, Rank& rank) {
      return go_on(rank.distribute_dataset(dataset, options), saved ? &*saved : nullptr, most);
    });
    for (const Run& run : runs) {
      EXPECT_EQ(run.state.str(), runs.front().state.str());
      EXPECT_EQ(run.steps, runs.front().steps);
      delivered.insert(delivered.end(), run.rows.begin(), run.rows.end());
    }
    saved = runs.front().state;
    EXPECT_LT(saved->str().size(), 1000U);
  }
  EXPECT_EQ(op_testing::sorted(delivered), op_testing::numbers(0, 1000));
}

TEST(MultiWorker, StatesAreTheSameOnEveryRankAndRestoreOnAnyNumber) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 12; ++trial) expect_chain_delivers_every_row_once(random);
}

TEST(MultiWorker, ResumingLateInALongEpochReadsNoEarlierRows) {
  constexpr std::int64_t kRows = 100'000'000;
  constexpr std::int64_t kBatch = 40;
  constexpr std::int64_t kStep = kRows / 10 * 9 / kBatch;
  std::atomic<std::int64_t> touched = 0;
  const Dataset dataset = Dataset::range(kRows)
                              .shuffle({.seed = 8})
                              .map([&touched](Element element) {
                                ++touched;
                                return element;
                              })
                              .batch(kBatch);
  State state = replicas(2).distribute_dataset(dataset).iterate().save();
  state.set("step", kStep).set("row", kStep * kBatch);
  State iterator = state.at("cursor");
  state.set("cursor", iterator.set("element", kStep));
  auto ranks = ranks_of(2);
  const auto firsts = on_all(ranks, [&](std::int64_t, Rank& rank) {
    const DistributedDataset distributed = rank.distribute_dataset(dataset, {.per_replica_buffer_size = 0});
    DistributedIterator iterator = distributed.iterate();
    iterator.load(state);
    const auto step = iterator.next();
    EXPECT_EQ(step->info().row_start, kStep * kBatch);
    return rows(*step)[0];
  });
  // One row is read to learn the type.
  EXPECT_LE(touched, kBatch + 1);
  const Dataset rest = Dataset::range(kRows).shuffle({.seed = 8}).skip(kStep * kBatch).take(kBatch);
  Rows both = firsts[0];
  both.insert(both.end(), firsts[1].begin(), firsts[1].end());
  EXPECT_EQ(both, op_testing::values(rest));
}

/// The error that each rank gets at the first step of the iterator that `make` returns; "" if there is none.
std::vector<std::string> handshake_errors(
    int num_ranks, const std::function<DistributedIterator(std::int64_t, const Rank&)>& make) {
  auto ranks = ranks_of(num_ranks);
  return on_all(
      ranks, [&](std::int64_t number, Rank& rank) { return peer_error([&] { make(number, rank).next(); }); });
}

void expect_all(const std::vector<std::string>& errors, const std::string& part) {
  for (const auto& error : errors) {
    EXPECT_EQ(error, errors.front());
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
}

TEST(MultiWorker, DifferentDatasetsAreTheSameErrorOnEveryRank) {
  expect_all(handshake_errors(
                 3,
                 [](std::int64_t number, const Rank& rank) {
                   return rank.distribute_dataset(Dataset::range(number == 1 ? 10 : 11).batch(2)).iterate();
                 }),
             "the ranks must agree on length, but rank 1 has 5; ranks 0 and 2 have 6. Give every rank the "
             "whole dataset");
  expect_all(handshake_errors(2,
                              [](std::int64_t number, const Rank& rank) {
                                return rank.distribute_dataset(Dataset::range(9 + number).batch(2)).iterate();
                              }),
             "the ranks must agree on pipeline, but rank 1 has");
}

TEST(MultiWorker, DifferentContentIsTheSameErrorOnEveryRank) {
  expect_all(handshake_errors(
                 2,
                 [](std::int64_t number, const Rank& rank) {
                   return rank.distribute_dataset(Dataset::from_tensor_slices(at::full({6}, number)).batch(2))
                       .iterate();
                 }),
             "the ranks must agree on content");
}

/// The rows that each rank reads from its own dataset; errors fail the test.
std::vector<Rows> read_own(const std::function<Dataset(std::int64_t)>& dataset, int count) {
  auto ranks = ranks_of(count);
  return on_all(ranks, [&](std::int64_t number, Rank& rank) {
    DistributedIterator iterator = rank.distribute_dataset(dataset(number)).iterate();
    Rows all;
    EXPECT_EQ(peer_error([&] {
                for (const auto& step : steps(iterator))
                  all.insert(all.end(), step[0].begin(), step[0].end());
              }),
              "");
    return all;
  });
}

TEST(MultiWorker, UnderPolicyOffEachRankMayHaveItsOwnData) {
  const auto own = [](std::int64_t number) {
    const at::Tensor rows = at::arange(10 * number, 10 * number + 2 + 3 * number);
    const Dataset dataset = Dataset::from_tensor_slices(rows);
    return with_policy((number == 0 ? dataset : dataset.take(4)).batch(4), AutoShardPolicy::kOff);
  };
  EXPECT_EQ(read_own(own, 2), (std::vector<Rows>{{0, 1}, {10, 11, 12, 13}}));
  expect_all(
      handshake_errors(
          2,
          [](std::int64_t number, const Rank& rank) {
            const Dataset rows = Dataset::range(8);
            const Dataset dataset = number == 0 ? rows : rows.enumerate();
            return rank.distribute_dataset(with_policy(dataset.batch(2), AutoShardPolicy::kOff)).iterate();
          }),
      "the ranks must agree on type of the elements");
}

TEST(MultiWorker, FilesMayBeInAnotherFolderOnEachMachine) {
  const std::array<files_testing::Folder, 2> folders;
  for (const AutoShardPolicy policy : {AutoShardPolicy::kAuto, AutoShardPolicy::kData}) {
    const auto lines = [&](std::int64_t number) {
      const auto& folder = folders[static_cast<std::size_t>(number)];
      const std::vector<std::string> names{folder.write("a", "0\n1\n"), folder.write("b", "2\n3\n")};
      const Dataset numbers = TextLineDataset(names).map([](const Element& line) {
        return op_testing::scalar(std::stoll(std::string(std::get<Bytes>(line.leaves().front())[0])));
      });
      return with_policy(numbers.batch(2), policy);
    };
    const auto all = read_own(lines, 2);
    EXPECT_EQ(all[0].size() + all[1].size(), 4U);
  }
}

TEST(MultiWorker, DifferentRecordsOfOneStreamAreAnError) {
  const std::array<files_testing::Folder, 2> folders;
  expect_all(
      handshake_errors(
          2,
          [&](std::int64_t number, const Rank& rank) {
            const auto& folder = folders[static_cast<std::size_t>(number)];
            const std::vector<std::string> names{folder.write("a", number == 0 ? "0\n1\n" : "0\n2\n")};
            const Dataset lines = TextLineDataset(names);
            return rank.distribute_dataset(with_policy(lines.batch(2), AutoShardPolicy::kData)).iterate();
          }),
      "the ranks must agree on content");
}

TEST(MultiWorker, DifferentOptionsAreTheSameErrorOnEveryRank) {
  expect_all(
      handshake_errors(2,
                       [](std::int64_t number, const Rank& rank) {
                         const Tail tail = number == 0 ? Tail::kZeroRows : Tail::kDrop;
                         return rank.distribute_dataset(Dataset::range(9).batch(2), {.tail = tail}).iterate();
                       }),
      "the ranks must agree on tail, but rank 1 has drop; rank 0 has zero_rows.");
  expect_all(handshake_errors(
                 2,
                 [](std::int64_t number, const Rank& rank) {
                   const Split split = number == 0 ? Split::kTf : Split::kBalanced;
                   return rank.distribute_dataset(Dataset::range(9).batch(2), {.split = split}).iterate();
                 }),
             "the ranks must agree on split, but rank 1 has balanced; rank 0 has tf.");
  expect_all(handshake_errors(2,
                              [](std::int64_t number, const Rank& rank) {
                                const auto policy =
                                    number == 0 ? AutoShardPolicy::kOff : AutoShardPolicy::kData;
                                const Dataset dataset = with_policy(Dataset::range(9).batch(2), policy);
                                return rank.distribute_dataset(dataset).iterate();
                              }),
             "the ranks must agree on auto_shard_policy, but rank 1 has DATA; rank 0 has OFF.");
  expect_all(handshake_errors(2,
                              [](std::int64_t number, const Rank& rank) {
                                const double mine = 1.0 + static_cast<double>(number);
                                const InputOptions options{.split = Split::kBalanced,
                                                           .weights = std::vector<double>{1.0, mine}};
                                return rank.distribute_dataset(Dataset::range(9).batch(2), options).iterate();
                              }),
             "the ranks must agree on weights, but rank 0 has 1 1; rank 1 has 1 2.");
  expect_all(handshake_errors(
                 2,
                 [](std::int64_t number, const Rank& rank) {
                   return rank.distribute_dataset(Dataset::range(9).batch(2)).iterate({.epoch = number});
                 }),
             "the ranks must agree on epoch, but rank 0 has 0; rank 1 has 1.");
  expect_all(handshake_errors(
                 2,
                 [](std::int64_t number, const Rank& rank) {
                   const Options seed{.seed = number};
                   return rank.distribute_dataset(Dataset::range(9).batch(2).with_options(seed)).iterate();
                 }),
             "the ranks must agree on seed");
  expect_all(handshake_errors(2,
                              [](std::int64_t number, const Rank& rank) {
                                return rank.distribute_dataset(Dataset::range(9).batch(2 + number)).iterate();
                              }),
             "the ranks must agree on batch size, but rank 0 has 2; rank 1 has 3.");
}

TEST(MultiWorker, AStateThatOnlySomeRanksLoadedIsTheSameErrorOnEveryRank) {
  DistributedIterator one = replicas(1).distribute_dataset(Dataset::range(9).batch(2)).iterate({.seed = 1});
  one.next();
  const State saved = one.save();
  expect_all(handshake_errors(2,
                              [&](std::int64_t number, const Rank& rank) {
                                auto iterator = rank.distribute_dataset(Dataset::range(9).batch(2))
                                                    .iterate({.seed = saved.at("seed").as_key()});
                                if (number == 1) iterator.load(saved);
                                return iterator;
                              }),
             "the ranks must agree on position, but rank 0 has step 0, row 0; rank 1 has step 1, row 2.");
}

TEST(MultiWorker, TheErrorOfOneRankReachesTheOthersAtTheirNextStep) {
  auto ranks = ranks_of(2);
  const auto errors = on_all(ranks, [](std::int64_t number, Rank& rank) -> std::string {
    const Dataset dataset = Dataset::range(1'000'000).map([number](Element element) {
      if (number == 1 && element.tensor().item<std::int64_t>() == 42)
        throw std::runtime_error("row 42 is bad");
      return element;
    });
    DistributedIterator iterator = rank.distribute_dataset(dataset.batch(4)).iterate();
    try {
      while (iterator.next()) std::this_thread::yield();
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  });
  EXPECT_NE(errors[1].find("row 42 is bad"), std::string::npos) << errors[1];
  EXPECT_NE(errors[0].find("rank 1 failed: at step 10:"), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("row 42 is bad"), std::string::npos) << errors[0];
}

TEST(MultiWorker, ARankThatContinuesAfterAnotherLeftGetsItsNameAndStep) {
  auto ranks = ranks_of(2);
  const auto errors = on_all(ranks, [](std::int64_t number, Rank& rank) {
    return peer_error([&] {
      DistributedIterator iterator = rank.distribute_dataset(Dataset::range(10'000'000).batch(2)).iterate();
      for (std::int64_t step = 0; number == 0 || step < 3; ++step)
        if (!iterator.next()) return;
    });
  });
  EXPECT_EQ(errors[1], "");
  EXPECT_NE(errors[0].find("rank 1 left its loop after 3 steps"), std::string::npos) << errors[0];
}

TEST(MultiWorker, RanksThatLeaveTogetherMayStartAgain) {
  auto ranks = ranks_of(2);
  const auto errors = on_all(ranks, [](std::int64_t, Rank& rank) {
    return peer_error([&] {
      const DistributedDataset distributed = rank.distribute_dataset(Dataset::range(40).batch(2));
      for (int epoch = 0; epoch < 3; ++epoch) {
        DistributedIterator iterator = distributed.iterate();
        for (int step = 0; step < 4; ++step) iterator.next();
      }
    });
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
}

TEST(MultiWorker, TextsOfAnEarlierLifeOfTheGroupHaveNoEffect) {
  const auto board = in_memory_stores(2);
  for (int life = 0; life < 3; ++life) {
    std::vector<Rank> ranks;
    for (const auto& kv_store : board) ranks.emplace_back(kv_store, 1);
    const auto firsts = on_all(ranks, [](std::int64_t number, Rank& rank) {
      DistributedIterator iterator = rank.distribute_dataset(Dataset::range(20).batch(4)).iterate();
      const Rows first = rows(*iterator.next())[0];
      if (number == 1) iterator.close();  // sets a text for ranks that continue
      return first;
    });
    EXPECT_EQ(firsts, (std::vector<Rows>{{0, 1}, {2, 3}}));
  }
}

TEST(MultiWorker, ARankThatNeverOpensItsIteratorIsNamedAfterTheTimeout) {
  auto ranks = ranks_of(3);
  const auto errors = on_all(ranks, [](std::int64_t number, Rank& rank) {
    return peer_error([&] {
      const InputOptions hasty{.peer_timeout = 0.05};
      DistributedIterator iterator = rank.distribute_dataset(Dataset::range(4).batch(2), hasty).iterate();
      if (number != 2) iterator.next();
    });
  });
  EXPECT_NE(errors[0].find("rank 0 waited 0.05 s (`peer_timeout`) for rank 2."), std::string::npos)
      << errors[0];
  EXPECT_NE(errors[1].find("rank 1 waited 0.05 s (`peer_timeout`) for rank 2."), std::string::npos)
      << errors[1];
}

}  // namespace
}  // namespace torch_distinput::distribute_testing
