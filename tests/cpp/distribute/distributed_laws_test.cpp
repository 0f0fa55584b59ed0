// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"

/// The laws of distribution on random pipelines, splits, tails and replicas.
namespace torch_distinput::distribute_testing {
namespace {

/// All steps of the epoch, including those at which `next` would end.
std::vector<PerReplica> all_steps(DistributedIterator& iterator) {
  std::vector<PerReplica> result;
  for (Optional step = iterator.get_next_as_optional(); step.has_value();
       step = iterator.get_next_as_optional()) {
    result.push_back(step.get_value());
  }
  return result;
}

bool is_complete(const PerReplica& step) {
  const auto& has_value = step.info().has_value;
  return std::find(has_value.begin(), has_value.end(), false) == has_value.end();
}

void expect_same(const PerReplica& step, const model::Step& expected) {
  ASSERT_EQ(rows(step), expected.parts);
  EXPECT_EQ(step.info().valid, expected.valid);
  EXPECT_EQ(step.info().has_value, expected.present);
}

TEST(DistributedLaws, StepsMatchTheModelOnBothPaths) {
  std::mt19937 random(11);
  for (int i = 0; i < 1200; ++i) {
    const Pipeline p = random_pipeline(random);
    SCOPED_TRACE(p.str());
    const auto expected = p.expected();
    for (const bool stream_only : {false, true}) {
      DistributedIterator iterator = p.distributed().iterate({.epoch = 0, .stream_only = stream_only});
      const auto steps = all_steps(iterator);
      ASSERT_EQ(steps.size(), expected.size()) << "stream_only " << stream_only;
      for (std::size_t s = 0; s < steps.size(); ++s) expect_same(steps[s], expected[s]);
    }
  }
}

void expect_same(const StepInfo& one, const StepInfo& other) {
  EXPECT_EQ(one.epoch, other.epoch);
  EXPECT_EQ(one.step, other.step);
  EXPECT_EQ(one.row_start, other.row_start);
  EXPECT_EQ(one.valid, other.valid);
  EXPECT_EQ(one.global_valid, other.global_valid);
  EXPECT_EQ(one.num_replicas, other.num_replicas);
  EXPECT_EQ(one.loss_scale, other.loss_scale);
  EXPECT_EQ(one.is_last, other.is_last);
  EXPECT_EQ(one.has_value, other.has_value);
  EXPECT_EQ(one.order, other.order);
}

TEST(DistributedLaws, StepsWithoutRowsAreThoseWithThem) {
  std::mt19937 random(13);
  for (int i = 0; i < 400; ++i) {
    Pipeline p = random_pipeline(random);
    if (i % 2 == 0) p.rows = [](std::int64_t n) { return Dataset::range(n).shuffle({.seed = 4}); };
    SCOPED_TRACE(p.str());
    const DistributedDataset dataset = p.distributed();
    DistributedIterator whole = dataset.iterate({.epoch = 1, .seed = 2});
    const IterateOptions rowless{.epoch = 1, .seed = 2, .with_rows = false};
    const bool has_plan = p.source != Source::kFilter;
    const bool is_known = has_plan && (p.source != Source::kMap || p.values().empty());
    if (!is_known) {
      EXPECT_THROW(dataset.iterate(rowless), c10::ValueError);
      continue;
    }
    DistributedIterator none = dataset.iterate(rowless);
    EXPECT_EQ(none.save(), whole.save());
    for (Optional step = whole.get_next_as_optional(); step.has_value();
         step = whole.get_next_as_optional()) {
      const PerReplica empty = none.get_next_as_optional().get_value();
      expect_same(empty.info(), step.get_value().info());
      EXPECT_EQ(empty.size(), step.get_value().size());
      EXPECT_EQ(none.save(), whole.save());
    }
    EXPECT_FALSE(none.get_next_as_optional().has_value());
    EXPECT_EQ(none.save(), whole.save());
  }
}

TEST(DistributedLaws, StepInfoAddsUp) {
  std::mt19937 random(12);
  for (int i = 0; i < 300; ++i) {
    const Pipeline p = random_pipeline(random);
    SCOPED_TRACE(p.str());
    DistributedIterator iterator = p.distributed().iterate({.epoch = 3});
    std::int64_t number = 0;
    std::int64_t row = 0;
    const auto steps = all_steps(iterator);
    for (const PerReplica& step : steps) {
      const StepInfo& info = step.info();
      EXPECT_EQ(info.epoch, 3);
      EXPECT_EQ(info.step, number++);
      EXPECT_EQ(info.row_start, row);
      EXPECT_EQ(info.num_replicas, p.replicas);
      EXPECT_EQ(info.is_last, number == std::ssize(steps));
      std::int64_t valid = 0;
      double scale = 0;
      for (std::size_t g = 0; g < step.size(); ++g) {
        valid += info.valid[g];
        scale += info.loss_scale[g];
        EXPECT_LE(info.valid[g], step[g].rows().value());
      }
      EXPECT_EQ(info.global_valid, valid);
      EXPECT_NEAR(scale, valid == 0 ? 0.0 : static_cast<double>(p.replicas), 1e-9);
      row += valid;
    }
  }
}

TEST(DistributedLaws, NextDeliversTheCompleteStepsAndLosesNoRest) {
  std::mt19937 random(13);
  for (int i = 0; i < 300; ++i) {
    const Pipeline p = random_pipeline(random);
    SCOPED_TRACE(p.str());
    MirroredStrategy strategy = replicas(p.replicas);
    strategy.enable_partial_batch_handling = false;
    const auto distributed = strategy.distribute_dataset(with_policy(p.dataset(), p.policy), p.options);
    const bool fills = p.options.tail == Tail::kPadded || p.options.tail == Tail::kRepeat;
    DistributedIterator whole = distributed.iterate({.epoch = 0});
    const auto all = all_steps(whole);
    std::size_t complete = 0;
    while (complete < all.size() && (fills || is_complete(all[complete]))) ++complete;
    DistributedIterator iterator = distributed.iterate({.epoch = 0});
    std::size_t seen = 0;
    while (const auto step = iterator.next()) {
      EXPECT_EQ(step->info().is_last, ++seen == complete);
    }
    EXPECT_EQ(seen, complete);
    EXPECT_FALSE(iterator.next());
    EXPECT_EQ(all_steps(iterator).size(), all.size() - complete);
    EXPECT_FALSE(iterator.next());
    if (const auto count = distributed.num_steps()) {
      EXPECT_EQ(*count, static_cast<std::int64_t>(complete));
    }
  }
}

/// The positions of an iterator before its first step and after each of all its steps.
std::vector<State> positions(DistributedIterator& iterator) {
  std::vector<State> saved{iterator.save()};
  while (iterator.get_next_as_optional().has_value()) saved.push_back(iterator.save());
  return saved;
}

void expect_states_at(const DistributedIterator& iterator, const std::vector<State>& saved) {
  for (std::size_t step = 0; step < saved.size(); ++step) {
    EXPECT_EQ(iterator.state_at(static_cast<std::int64_t>(step)), saved[step]) << "step " << step;
  }
  EXPECT_THROW(iterator.state_at(std::ssize(saved)), c10::IndexError);
  EXPECT_THROW(iterator.state_at(-1), c10::IndexError);
}

TEST(DistributedLaws, StateAtIsTheStateThatAnIteratorHasThere) {
  std::mt19937 random(16);
  int known = 0;
  for (int i = 0; i < 1200; ++i) {
    const Pipeline p = random_pipeline(random);
    SCOPED_TRACE(p.str());
    DistributedIterator iterator = p.distributed().iterate({.epoch = 2, .seed = 5});
    if (p.source == Source::kMap || p.source == Source::kFilter) {
      if (p.dataset().cardinality() == 0) continue;  // no rows are known rows
      EXPECT_THROW(iterator.state_at(0), c10::ValueError);
      continue;
    }
    ++known;
    DistributedIterator fresh = p.distributed().iterate({.epoch = 2, .seed = 5});
    const std::vector<State> saved = positions(iterator);
    expect_states_at(fresh, saved);
    expect_states_at(iterator, saved);
    // A restored iterator counts the steps of the whole epoch.
    fresh.load(saved[saved.size() / 2]);
    expect_states_at(fresh, saved);
  }
  EXPECT_GT(known, 400);
}

TEST(DistributedLaws, StateAtNeedsStepsOfOneStreamThatEnds) {
  const auto batches = [](const InputContext&) { return Dataset::range(9).batch(2); };
  const DistributedDataset endless = replicas(2).distribute_dataset(Dataset::range(9).batch(2).repeat());
  const DistributedDataset of_replicas = replicas(2).distribute_datasets_from_function(
      batches, {.replication_mode = ReplicationMode::kPerReplica});
  EXPECT_THROW(endless.iterate().state_at(0), c10::ValueError);
  EXPECT_THROW(of_replicas.iterate().state_at(0), c10::ValueError);
}

TEST(DistributedLaws, StateAtReadsNothing) {
  const Dataset dataset = Dataset::range(10'000'000'001).shuffle({.seed = 1}).batch(64);
  DistributedIterator iterator =
      replicas(3).distribute_dataset(dataset, {.split = Split::kBalanced}).iterate();
  iterator.load(iterator.state_at(156'250'000));
  EXPECT_EQ(items(iterator.get_next()[0]).size(), 1u);
  EXPECT_FALSE(iterator.next());
}

TEST(DistributedLaws, NumStepsIsTheNumberOfSteps) {
  std::mt19937 random(14);
  int known = 0;
  for (int i = 0; i < 600; ++i) {
    const Pipeline p = random_pipeline(random);
    SCOPED_TRACE(p.str());
    const auto distributed = p.distributed();
    const auto count = distributed.num_steps();
    const bool has_rows = p.source == Source::kBatch || p.source == Source::kRowWiseMap;
    EXPECT_TRUE(count.has_value() || !has_rows);
    if (!count) continue;
    ++known;
    EXPECT_EQ(*count, std::ssize(steps(distributed)));
  }
  EXPECT_GT(known, 200);
}

TEST(DistributedLaws, ContinuesFromEverySavedPosition) {
  std::mt19937 random(15);
  for (int i = 0; i < 250; ++i) {
    const Pipeline p = random_pipeline(random);
    const bool stream_only = i % 2 == 0;
    SCOPED_TRACE(p.str() + " stream_only " + std::to_string(stream_only));
    const auto distributed = p.distributed();
    DistributedIterator iterator = distributed.iterate({.epoch = 0, .stream_only = stream_only});
    std::vector<State> saved{iterator.save()};
    std::vector<PerReplica> all;
    for (Optional step = iterator.get_next_as_optional(); step.has_value();
         step = iterator.get_next_as_optional()) {
      all.push_back(step.get_value());
      saved.push_back(iterator.save());
    }
    for (std::size_t taken = 0; taken < saved.size(); ++taken) {
      DistributedIterator resumed = distributed.iterate({.epoch = 7, .stream_only = stream_only});
      resumed.load(saved[taken]);
      EXPECT_EQ(resumed.save(), saved[taken]);
      const auto rest = all_steps(resumed);
      ASSERT_EQ(rest.size(), all.size() - taken) << "after " << taken;
      for (std::size_t s = 0; s < rest.size(); ++s) {
        EXPECT_EQ(rows(rest[s]), rows(all[taken + s]));
        EXPECT_EQ(rest[s].info().step, all[taken + s].info().step);
        EXPECT_EQ(rest[s].info().row_start, all[taken + s].info().row_start);
        EXPECT_EQ(rest[s].info().epoch, 0);
      }
    }
  }
}

/// Appends the rows of `step` that count, in the order of its replicas.
void add_valid(Rows& seen, const PerReplica& step) {
  for (std::size_t g = 0; g < step.size(); ++g) {
    const Rows part = items(step[g]);
    seen.insert(seen.end(), part.begin(), part.begin() + step.info().valid[g]);
  }
}

// A position counts rows, so other replicas, splits, batch sizes and paths continue from it.
TEST(DistributedLaws, EveryRowOnceAlsoAcrossARestartWithOtherReplicasAndBatches) {
  std::mt19937 random(16);
  for (int i = 0; i < 600; ++i) {
    Pipeline before = random_pipeline(random);
    before.options.tail = i % 2 == 0 ? Tail::kZeroRows : Tail::kPadded;
    before.drop_remainder = false;
    Pipeline after = random_pipeline(random);
    after.options.tail = i % 3 == 0 ? Tail::kZeroRows : Tail::kPadded;
    after.n = before.n;
    after.rounds = before.rounds;
    after.drop_remainder = false;
    after.source = before.source;
    // A function of whole batches computes something else on batches of another size.
    if (before.source == Source::kMap || before.rounds > 1) after.batch = before.batch;
    SCOPED_TRACE(before.str() + " then " + after.str());
    // Without known rows, the saved position holds a state of the input, which fits one path only.
    const bool has_rows = before.source == Source::kBatch || before.source == Source::kRowWiseMap;
    const bool stream_before = i % 5 == 0;
    const bool stream_after = has_rows ? i % 7 == 0 && !stream_before : stream_before;
    DistributedIterator first = before.distributed().iterate({.epoch = 0, .stream_only = stream_before});
    Rows seen;
    for (std::int64_t steps = static_cast<std::int64_t>(random() % 5); steps > 0; --steps) {
      const Optional step = first.get_next_as_optional();
      if (!step.has_value()) break;
      add_valid(seen, step.get_value());
    }
    DistributedIterator second = after.distributed().iterate({.epoch = 0, .stream_only = stream_after});
    second.load(first.save());
    for (const PerReplica& step : all_steps(second)) add_valid(seen, step);
    ASSERT_EQ(seen, before.values());
  }
}

TEST(DistributedLaws, RetainedStepsNeverChange) {
  for (const Source source : {Source::kBatch, Source::kMap, Source::kFilter}) {
    Pipeline p{.n = 40, .batch = 4, .source = source};
    p.options.tail = Tail::kRepeat;
    DistributedIterator iterator = p.distributed().iterate({.epoch = 0});
    const auto kept = all_steps(iterator);
    const auto expected = p.expected();
    ASSERT_EQ(kept.size(), expected.size());
    for (std::size_t s = 0; s < kept.size(); ++s) EXPECT_EQ(rows(kept[s]), expected[s].parts);
  }
}

// A user's change of one part must not be visible in any other.
TEST(DistributedLaws, WritingToOnePartChangesNoOther) {
  for (const Source source : {Source::kBatch, Source::kMap, Source::kFilter}) {
    for (const Tail tail : {Tail::kPadded, Tail::kRepeat}) {
      Pipeline p{.n = 9, .batch = 4, .source = source, .replicas = 4};
      p.options.tail = tail;
      DistributedIterator iterator = p.distributed().iterate({.epoch = 0});
      const auto expected = p.expected();
      for (const model::Step& step : expected) {
        const auto values = iterator.next();
        ASSERT_TRUE(values);
        for (std::size_t g = 0; g < values->size(); ++g) {
          EXPECT_EQ(items((*values)[g]), step.parts[g]);
          (*values)[g].tensor().fill_(-1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace torch_distinput::distribute_testing
