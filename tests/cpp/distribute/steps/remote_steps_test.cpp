// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "distribute/multi_worker_testing.h"
#include "support/interrupts.h"
#include "support/remote_rows.h"
#include "torch_distinput/interrupt.h"

/// What the steps of a distribution tell a source over a network.
namespace torch_distinput::distribute_testing {
namespace {

using fakes::ReadLog;
using ReadLogPtr = std::shared_ptr<ReadLog>;

/// `pipeline` over rows that take themselves for remote, or do not, and write to `log`.
Pipeline over_rows(Pipeline pipeline, bool remote, const ReadLogPtr& log) {
  // Rows without a layout are fetched, and a part without rows then reads one for its shape.
  const bool dense = pipeline.n % 2 == 0;
  pipeline.rows = [=](std::int64_t n) {
    return fakes::remote_rows({.size = n, .remote = remote, .dense = dense}, log);
  };
  return pipeline;
}

bool knows_rows(const Pipeline& pipeline) {
  return pipeline.source == Source::kBatch || pipeline.source == Source::kRowWiseMap;
}

/// All steps that are left, those without the parts of all replicas too.
Steps rest_of(DistributedIterator& iterator) {
  Steps result;
  for (Optional step = iterator.get_next_as_optional(); step.has_value();
       step = iterator.get_next_as_optional())
    result.push_back(rows(step.get_value()));
  return result;
}

/// Checks what was read in full.
void expect_announced(const ReadLog& log, bool all_read) {
  EXPECT_EQ(log.unannounced(), std::vector<std::int64_t>{});
  if (all_read) {
    EXPECT_EQ(log.announced(), log.read());
  }
}

Dataset bounded(const Dataset& dataset, int number) {
  if (number % 2 == 0) return dataset;
  return dataset.with_options({.prefetch_bytes = 1 + number % 200});
}

TEST(RemoteSteps, AreAnnouncedFirstAndHaveTheRowsOfALocalSource) {
  std::mt19937 random(21);
  for (int i = 0; i < 600; ++i) {
    const Pipeline p = random_pipeline(random);
    SCOPED_TRACE(p.str());
    const auto local = std::make_shared<ReadLog>();
    const auto remote = std::make_shared<ReadLog>();
    const auto all = [&](bool is_remote, const ReadLogPtr& log) {
      const Dataset dataset = bounded(over_rows(p, is_remote, log).dataset(), i);
      const auto distributed =
          replicas(p.replicas).distribute_dataset(with_policy(dataset, p.policy), p.options);
      DistributedIterator iterator = distributed.iterate({.epoch = 0});
      return rest_of(iterator);
    };
    ASSERT_EQ(all(true, remote), all(false, local));
    EXPECT_TRUE(local->announced().empty());
    expect_announced(*remote, knows_rows(p));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RemoteSteps, AreAnnouncedFirstAfterAStateFromTheMiddle) {
  std::mt19937 random(22);
  for (int i = 0; i < 400; ++i) {
    const Pipeline p = random_pipeline(random);
    SCOPED_TRACE(p.str());
    const auto before = std::make_shared<ReadLog>();
    const auto after = std::make_shared<ReadLog>();
    DistributedIterator first = over_rows(p, true, before).distributed().iterate({.epoch = 0});
    steps(first, random() % 4);
    const State middle = first.save();
    const Steps rest = rest_of(first);
    expect_announced(*before, knows_rows(p));

    DistributedIterator second = over_rows(p, true, after).distributed().iterate({.epoch = 0});
    second.load(middle);
    ASSERT_EQ(rest_of(second), rest);
    expect_announced(*after, knows_rows(p));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RemoteSteps, AreAnnouncedFirstAfterAStateOfAnotherBatchSize) {
  std::mt19937 random(23);
  for (int i = 0; i < 200; ++i) {
    Pipeline p = random_pipeline(random);
    p.source = Source::kBatch;
    p.rounds = 1;
    SCOPED_TRACE(p.str());
    const auto local = std::make_shared<ReadLog>();
    DistributedIterator first = over_rows(p, false, local).distributed().iterate({.epoch = 0});
    steps(first, random() % 4);
    p.batch = 1 + static_cast<std::int64_t>(random() % 9);
    DistributedIterator expected = over_rows(p, false, local).distributed().iterate({.epoch = 0});
    expected.load(first.save());
    const auto remote = std::make_shared<ReadLog>();
    DistributedIterator second = over_rows(p, true, remote).distributed().iterate({.epoch = 0});
    second.load(first.save());
    ASSERT_EQ(rest_of(second), rest_of(expected)) << "batch " << p.batch;
    expect_announced(*remote, /*all_read=*/true);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RemoteSteps, OfARankAreAllThatItsSourceIsTold) {
  for (const Tail tail :
       {Tail::kZeroRows, Tail::kPadded, Tail::kRepeat, Tail::kDrop, Tail::kUntilFirst, Tail::kMerge}) {
    for (const Split split : {Split::kTf, Split::kBalanced}) {
      for (const std::int64_t n : {0, 1, 7, 40, 97, 500}) {
        const Pipeline p{.n = n, .batch = 1 + n % 13, .options = {.split = split, .tail = tail}};
        SCOPED_TRACE(p.str());
        auto ranks = ranks_of(2, 3);
        on_all(ranks, [&](std::int64_t number, Rank& rank) {
          const auto local = std::make_shared<ReadLog>();
          const auto remote = std::make_shared<ReadLog>();
          const auto all = [&](bool is_remote, const ReadLogPtr& log) {
            const Dataset dataset = bounded(over_rows(p, is_remote, log).dataset(), static_cast<int>(n));
            DistributedIterator iterator = rank.distribute_dataset(dataset, p.options).iterate({.seed = 1});
            return steps(iterator);
          };
          EXPECT_EQ(all(true, remote), all(false, local)) << "rank " << number;
          EXPECT_TRUE(local->announced().empty());
          expect_announced(*remote, /*all_read=*/true);
          return 0;
        });
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(RemoteSteps, OfWholeElementsAreAnnouncedFirst) {
  const auto log = std::make_shared<ReadLog>();
  const Dataset dataset = fakes::remote_rows({.size = 20, .dense = false}, log);
  EXPECT_EQ(steps(dataset, 1).size(), 20U);
  expect_announced(*log, /*all_read=*/true);
}

TEST(RemoteSteps, AreAnnouncedOnlyWhenTheyAreMadeWhereNothingIsReadAhead) {
  const auto log = std::make_shared<ReadLog>();
  const Dataset dataset = fakes::remote_rows({.size = 24}, log).batch(6);
  EXPECT_EQ(steps(dataset, 1, AutoShardPolicy::kAuto, {.per_replica_buffer_size = 0}).size(), 4U);
  expect_announced(*log, /*all_read=*/true);
  EXPECT_EQ(log->ahead(), std::vector<std::int64_t>(4, 0));
}

/// Ten batches of 4 rows, of which only the first arrives.
DistributedDataset lost_after_a_step(const ReadLogPtr& log) {
  return replicas(2).distribute_dataset(fakes::remote_rows({.size = 40, .lost_from = 4}, log).batch(4));
}

TEST(RemoteSteps, ThatHangAreNotWaitedForWhenTheIteratorIsClosedOrMoved) {
  for (const bool moves : {false, true}) {
    const auto log = std::make_shared<ReadLog>();
    DistributedIterator iterator = lost_after_a_step(log).iterate({.epoch = 0});
    const State start = iterator.save();
    ASSERT_TRUE(iterator.next());
    while (log->read().size() < 8) std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    if (moves) iterator.load(start);
    if (!moves) iterator.close();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  }
}

TEST(RemoteSteps, ThatHangAreLeftWhenTheConsumerIsInterrupted) {
  DistributedIterator iterator = lost_after_a_step(std::make_shared<ReadLog>()).iterate({.epoch = 0});
  ASSERT_TRUE(iterator.next());
  const auto begin = std::chrono::steady_clock::now();
  {
    const InterruptScope consumer([] { throw fakes::Interrupted(); });
    EXPECT_THROW(iterator.next(), fakes::Interrupted);
    EXPECT_THROW(iterator.next(), fakes::Interrupted) << "the next call tries again";
  }
  iterator.close();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

}  // namespace
}  // namespace torch_distinput::distribute_testing
