// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/row_ledger.h"

#include <vector>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"

namespace torch_distinput {
namespace {

using distribute_testing::replicas;
using op_testing::items;
using LedgerRows = std::vector<std::int64_t>;

/// Rows 0 to 12, and 13 to 19 after them, which are the numbers of their source rows.
Dataset numbered_batches() {
  const Dataset first = Dataset::range(13).shuffle({.seed = 3});
  return first.concatenate(Dataset::range(13, 20)).repeat(2).batch(4);
}

TEST(RowLedger, NamesTheRowsOfEachElement) {
  const Dataset batches = numbered_batches();
  const RowLedger ledger = batches.ledger({.epoch = 2, .seed = 5});
  DatasetIterator iterator = batches.iterate({.epoch = 2, .seed = 5});
  for (std::int64_t step = 0; step < ledger.num_steps(); ++step)
    EXPECT_EQ(ledger.rows(step), items(iterator.next().value()));
  EXPECT_FALSE(iterator.next());
  EXPECT_THROW(ledger.rows(ledger.num_steps()), c10::IndexError);
}

TEST(RowLedger, NamesTheRowsOfEachReplica) {
  const auto assigned = replicas(3).distribute_dataset(numbered_batches(), {.split = Split::kBalanced});
  const RowLedger ledger = assigned.ledger({});
  std::int64_t step = 0;
  for (const PerReplica& parts : assigned) {
    std::int64_t replica = 0;
    for (const Element& part : parts) EXPECT_EQ(ledger.rows(step, replica++), items(part));
    ++step;
  }
  EXPECT_EQ(ledger.num_steps(), step);
}

TEST(RowLedger, FindsTheElementOfARow) {
  const RowLedger ledger = numbered_batches().ledger({.seed = 5});
  for (std::int64_t row = 0; row < 20; ++row)
    EXPECT_EQ(ledger.rebuild(row, /*unbatched=*/true).tensor().item<std::int64_t>(), row);
  EXPECT_THROW(ledger.rebuild(20), c10::IndexError);
}

TEST(RowLedger, LocatesRowsInTheirSources) {
  const RowLedger ledger = numbered_batches().ledger({.seed = 5});
  EXPECT_EQ(ledger.locate(12), (SourceRow{0, "", 12}));
  EXPECT_EQ(ledger.locate(13), (SourceRow{1, "", 0}));
  EXPECT_EQ(ledger.locate(19), (SourceRow{1, "", 6}));
  EXPECT_THROW(ledger.locate(20), c10::IndexError);
  EXPECT_THROW(ledger.locate(-1), c10::IndexError);
}

TEST(RowLedger, LeavesOutWhatTheIteratorOfItsPositionExcluded) {
  const Dataset batches = Dataset::range(12).batch(2);
  DatasetIterator iterator = batches.iterate({.epoch = 1, .seed = 0});
  iterator.next();
  iterator.exclude({0, 3, 4});
  LedgerRows rest;
  while (const auto batch = iterator.next()) {
    const LedgerRows rows = items(*batch);
    rest.insert(rest.end(), rows.begin(), rows.end());
  }
  EXPECT_EQ(rest, (LedgerRows{2, 5, 6, 7, 8, 9, 10, 11}));
  const State position = iterator.save();
  EXPECT_EQ(batches.ledger({.epoch = 0, .seed = 0, .position = position}).rows(0), (LedgerRows{0, 1}));
  EXPECT_EQ(batches.ledger({.epoch = 1, .seed = 0, .position = position}).rows(0), (LedgerRows{0, 1}));
  EXPECT_EQ(batches.ledger({.epoch = 1, .seed = 0, .position = position}).rows(1), (LedgerRows{2, 5}));
  EXPECT_EQ(batches.ledger({.epoch = 2, .seed = 0, .position = position}).rows(0), (LedgerRows{1, 2}));
}

TEST(RowLedger, NamesTheOpWithoutRandomAccess) {
  const Dataset streams = Dataset::range(4).filter([](const Element&) { return true; }).batch(2);
  EXPECT_THROW(streams.ledger({}), c10::ValueError);
}

TEST(RowLedger, RefusesDamagedExclusions) {
  const Dataset numbers = Dataset::range(4);
  DatasetIterator iterator = numbers.iterate({.epoch = 0, .seed = 0});
  State state = iterator.save();
  for (const LedgerRows& rows : {LedgerRows{}, LedgerRows{2, 1}, LedgerRows{-1}}) {
    State::List fields{State(std::int64_t{0}), State(std::int64_t{0}),
                       State(State::List(rows.begin(), rows.end()))};
    state.set("excluded", State::List{State(std::move(fields))});
    EXPECT_THROW(iterator.load(state), c10::ValueError);
  }
}

}  // namespace
}  // namespace torch_distinput
