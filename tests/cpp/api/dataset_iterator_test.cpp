// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <set>
#include <stdexcept>

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "runtime/forked_child.h"
#include "support/fakes.h"
#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

const IterateOptions kStream{.epoch = 0, .stream_only = true};

/// Rows 0, 1, ... of which one fails, on the sequential path.
Dataset failing_stream(std::int64_t failing) {
  return Dataset::from_rows(std::make_shared<fakes::Rows>(100, std::set<std::int64_t>{failing}))
      .batch(1)
      .unbatch();
}

TEST(DatasetIterator, RepeatsAnErrorAndKeepsThePositionBeforeIt) {
  for (const bool stream_only : {false, true}) {
    const auto source = std::make_shared<fakes::Rows>(10, std::set<std::int64_t>{5});
    DatasetIterator iterator = Dataset::from_rows(source).batch(2).iterate({.stream_only = stream_only});
    EXPECT_EQ(elements(iterator, 2), (std::vector<Values>{{0, 1}, {2, 3}}));
    const std::string rows = stream_only ? "row 5" : "one of the 2 rows 4 to 5";
    EXPECT_EQ(message_of<c10::ValueError>([&] { iterator.next(); }),
              "row 5 is bad (from_rows(rows): " + rows + ")");
    EXPECT_EQ(message_of<c10::ValueError>([&] { iterator.next(); }),
              "row 5 is bad (from_rows(rows): " + rows + ")");
    EXPECT_EQ(source->reads(), stream_only ? 6 : source->reads());

    const Dataset repaired = Dataset::from_rows(std::make_shared<fakes::Rows>(10)).batch(2);
    DatasetIterator resumed = repaired.iterate({.stream_only = stream_only});
    resumed.load(iterator.save());
    EXPECT_EQ(elements(resumed), (std::vector<Values>{{4, 5}, {6, 7}, {8, 9}}));
  }
}

TEST(DatasetIterator, KeepsThePositionInFastStreams) {
  DatasetIterator iterator = failing_stream(60).iterate();
  EXPECT_EQ(elements(iterator, 60).size(), 60U);
  EXPECT_THROW(iterator.next(), c10::ValueError);
  DatasetIterator resumed = failing_stream(99).iterate();
  resumed.load(iterator.save());
  EXPECT_EQ(elements(resumed, 1), (std::vector<Values>{{60}}));
}

TEST(DatasetIterator, GoesOnAfterAnInterrupt) {
  bool interrupt = true;
  const auto poll_then_pass = [&](Element element) {
    if (scalar(element) == 3 && std::exchange(interrupt, false)) interrupt_check()();
    return element;
  };
  DatasetIterator iterator = generated(6).map(poll_then_pass).batch(2).iterate();
  const InterruptScope scope([] { throw std::runtime_error("interrupt"); });
  EXPECT_EQ(elements(iterator, 1), (std::vector<Values>{{0, 1}}));
  EXPECT_THROW(iterator.next(), std::runtime_error);
  EXPECT_EQ(elements(iterator), (std::vector<Values>{{2, 3}, {4, 5}}));
}

TEST(DatasetIterator, CountsWhatItHandsOut) {
  DatasetIterator iterator = Dataset::range(10).batch(4).iterate();
  elements(iterator);
  const Stats stats = iterator.stats();
  EXPECT_EQ(stats.batches, 3);
  EXPECT_EQ(stats.rows, 10);
  EXPECT_EQ(stats.bytes, 80);
}

TEST(DatasetIterator, CountsAnUnbatchedElementAsOneRow) {
  const Dataset vectors = Dataset::from_tensor_slices(Element(at::zeros({4, 3}, at::kLong)));
  for (const Dataset& dataset : {vectors, vectors.batch(2).unbatch()}) {
    DatasetIterator iterator = dataset.iterate();
    elements(iterator);
    EXPECT_EQ(iterator.stats().rows, 4);
  }
  DatasetIterator batches = vectors.batch(3).prefetch(1).iterate();
  elements(batches);
  EXPECT_EQ(batches.stats().rows, 4);
}

TEST(DatasetIterator, ReusesItsMemory) {
  constexpr std::int64_t kBatches = 50000;
  constexpr std::int64_t kMaxReadAhead = 8192;  // of elements this small
  DatasetIterator iterator =
      Dataset::range(16 * kBatches).batch(16).with_options({.num_threads = 2}).iterate();
  while (iterator.next()) {
  }
  EXPECT_EQ(iterator.stats().batches, kBatches);
  EXPECT_LE(iterator.stats().allocations, kMaxReadAhead);
}

TEST(DatasetIterator, CountsSkippedRows) {
  const Dataset dataset = generated(5).map(fails_at(2)).with_options(skipping());
  DatasetIterator iterator = dataset.iterate();
  EXPECT_EQ(elements(iterator), (std::vector<Values>{{0}, {1}, {3}, {4}}));
  EXPECT_EQ(iterator.stats().skipped, 1);
}

TEST(DatasetIterator, ReadsNoLocalDataBeforeItIsAskedFor) {
  int made = 0;
  const Dataset rows = Dataset::range(3).map([&](const Element& row) {
    ++made;
    return row;
  });
  rows.element_spec();
  const int before = made;
  DatasetIterator iterator = rows.iterate({.epoch = 0});
  iterator.begin_reading();
  EXPECT_EQ(made, before);
  EXPECT_EQ(iterator.remote_elements_left(), std::nullopt);
  EXPECT_EQ(iterator.next().value().tensor().item<std::int64_t>(), 0);
  iterator.close();
  EXPECT_THROW(iterator.begin_reading(), FailedPreconditionError);
  EXPECT_THROW(iterator.remote_elements_left(), FailedPreconditionError);
}

TEST(DatasetIterator, RefusesToGoOnWhenClosed) {
  DatasetIterator iterator = Dataset::range(10).batch(4).iterate();
  iterator.next();
  const State before = iterator.save();
  iterator.close();
  iterator.close();
  EXPECT_EQ(message_of<FailedPreconditionError>([&] { iterator.next(); }),
            "DatasetIterator: the iterator is closed.");
  EXPECT_THROW(iterator.load(before), FailedPreconditionError);
  EXPECT_EQ(iterator.save(), before);
  EXPECT_EQ(iterator.stats().batches, 1);
}

TEST(DatasetIterator, SavesPlainValues) {
  DatasetIterator iterator = Dataset::range(10).batch(4).iterate({.epoch = 3, .seed = 9});
  iterator.next();
  EXPECT_EQ(
      iterator.save().str(),
      R"~({"elements_since": 0, "epoch": 3, "kind": "torch_distinput.DatasetIterator", )~"
      R"~("permutation": 1, "pipeline": ["range(start=0, stop=10, step=1)", )~"
      R"~("batch(drop_remainder=False)"], "position": {"path": "random access", "position": 1, "row": 4}, )~"
      R"~("seed": 9, "used": true, "version": 1})~");
}

TEST(DatasetIterator, RefusesStatesOfOtherIterators) {
  DatasetIterator iterator = Dataset::range(10).batch(4).iterate();
  const State good = iterator.save();
  EXPECT_EQ(message_of<c10::ValueError>([&] { iterator.load(State().set("x", 1)); }),
            R"(state: this is not a saved position: {"x": 1}.)");
  EXPECT_EQ(message_of<c10::ValueError>([&] { iterator.load(State(good).set("kind", "other")); }),
            R"(state: expected a state of torch_distinput.DatasetIterator, but it is one of "other".)");
  EXPECT_EQ(message_of<c10::ValueError>([&] { iterator.load(State(good).set("version", 2)); }),
            "state: version 2 cannot be read; this library reads versions 1 to 1.");
  EXPECT_EQ(message_of<c10::ValueError>([&] { iterator.load(State(good).set("permutation", 7)); }),
            "state: saved with version 7 of the shuffle order, but this library has version 1.");
  DatasetIterator other = Dataset::range(11).batch(4).iterate();
  EXPECT_EQ(
      message_of<c10::ValueError>([&] { other.load(good); }),
      "state: saved from another pipeline; its op 0 was `range(start=0, stop=10, step=1)`, but here it is "
      "`range(start=0, stop=11, step=1)`.");
  DatasetIterator streaming = Dataset::range(10).batch(4).iterate(kStream);
  EXPECT_THROW(streaming.load(good), c10::ValueError);
  EXPECT_EQ(elements(iterator).size(), 3U);
}

TEST(DatasetIterator, ResumesWithAnotherBatchSizeAtTheSameRow) {
  const Dataset rows = Dataset::range(20).shuffle({.seed = 5});
  DatasetIterator before = rows.batch(3).iterate({.epoch = 0});
  Values seen;
  for (int i = 0; i < 3; ++i) {
    const Values batch = items(*before.next());
    seen.insert(seen.end(), batch.begin(), batch.end());
  }
  DatasetIterator after = rows.batch(5).iterate({.epoch = 0});
  after.load(before.save());
  for (const Values& batch : elements(after)) seen.insert(seen.end(), batch.begin(), batch.end());
  EXPECT_EQ(seen, values(rows));
}

TEST(DatasetIterator, RestoresEpochAndSeed) {
  const Dataset dataset = Dataset::range(50).shuffle();
  DatasetIterator original = dataset.iterate({.epoch = 2, .seed = 11});
  elements(original, 10);
  DatasetIterator restored = dataset.iterate();
  restored.load(original.save());
  EXPECT_EQ(restored.epoch(), 2);
  EXPECT_EQ(elements(restored), elements(original));
}

TEST(DatasetIterator, IsRefusedInAForkedChild) {
  DatasetIterator iterator = Dataset::range(100).batch(4).iterate();
  iterator.next();
  EXPECT_TRUE(true_in_forked_child([&] {
    EXPECT_THROW(iterator.next(), FailedPreconditionError);
    // A new iterator works in the child, without threads.
    EXPECT_EQ(elements(Dataset::range(6).batch(4)), (std::vector<Values>{{0, 1, 2, 3}, {4, 5}}));
    return !HasFailure();
  }));
  EXPECT_EQ(elements(iterator).size(), 24U);
}

TEST(DatasetEpochs, AdvanceWhenSomethingWasHandedOut) {
  const Dataset dataset = Dataset::range(3);
  EXPECT_EQ(dataset.iterate().epoch(), 0);
  DatasetIterator first = dataset.iterate();
  EXPECT_EQ(first.epoch(), 0);
  first.next();
  EXPECT_EQ(dataset.iterate().epoch(), 1);
  EXPECT_EQ(dataset.iterate().epoch(), 1);
}

TEST(DatasetEpochs, AreCountedByAHandleAndItsCopies) {
  const Dataset dataset = Dataset::range(3);
  const Dataset copy = dataset;
  elements(dataset, IterateOptions{});
  EXPECT_EQ(copy.iterate().epoch(), 1);
  EXPECT_EQ(dataset.take(3).iterate().epoch(), 0);
}

TEST(DatasetEpochs, CanBePinned) {
  const Dataset dataset = Dataset::range(3);
  dataset.set_epoch(7);
  DatasetIterator iterator = dataset.iterate();
  EXPECT_EQ(iterator.epoch(), 7);
  iterator.next();
  EXPECT_EQ(dataset.iterate().epoch(), 8);
  EXPECT_THROW(dataset.set_epoch(-1), c10::ValueError);
}

TEST(DatasetEpochs, ChosenByTheCallerAreNotCounted) {
  const Dataset dataset = Dataset::range(3);
  elements(dataset, {.epoch = 0});
  EXPECT_EQ(dataset.iterate().epoch(), 0);
  EXPECT_THROW(dataset.iterate({.epoch = -1}), c10::ValueError);
}

TEST(DatasetEpochs, GoOnFromARestoredIterator) {
  const Dataset before = Dataset::range(30).shuffle();
  before.set_epoch(4);
  DatasetIterator iterator = before.iterate();
  elements(iterator);
  const Values fifth = values(before, {});

  const Dataset after = Dataset::range(30).shuffle();
  DatasetIterator restored = after.iterate();
  restored.load(iterator.save());
  EXPECT_FALSE(restored.next());
  EXPECT_EQ(values(after, {}), fifth);
}

TEST(DatasetSeeds, DrawnOnceDifferBetweenHandles) {
  const Dataset a = Dataset::range(1000).shuffle();
  const Dataset b = Dataset::range(1000).shuffle();
  EXPECT_EQ(values(a), values(a));
  EXPECT_NE(values(a), values(b));
  const Dataset seeded = a.with_options({.seed = 3});
  EXPECT_EQ(values(seeded), values(b.with_options({.seed = 3})));
}

TEST(DatasetLoop, VisitsEachElement) {
  Values seen;
  for (const Element& element : Dataset::range(4)) seen.push_back(scalar(element));
  EXPECT_EQ(seen, numbers(0, 4));
}

TEST(DatasetSpec, IsAnErrorWhereThereIsNothingToLookAt) {
  EXPECT_EQ(
      message_of<c10::ValueError>(
          [] { Dataset::from_rows(std::make_shared<fakes::Rows>(0)).element_spec(); }),
      "element_spec: the spec of `from_rows(rows, size=0)` cannot be known, because there is no element to "
      "look at.");
}

}  // namespace
}  // namespace torch_distinput
