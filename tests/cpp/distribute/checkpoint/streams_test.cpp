// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <set>

#include <gtest/gtest.h>

#include "distribute/checkpoint/restarts_testing.h"
#include "ops/op_testing.h"
#include "support/errors.h"

namespace torch_distinput::distribute_testing {
namespace {

enum class Source { kLines, kManyFiles, kFlatMap, kInterleave, kRange, kExpanded, kMixture, kConcatenation };
enum class Step { kNone, kMap, kPrefetch, kShuffle, kRepeat, kRebatched, kFlatMap, kPack };

/// Pipelines of numbered rows without random access, under policy STREAMS. Counts the calls of their filter,
/// through which each row of the source passes.
class StreamKitchen {
 public:
  explicit StreamKitchen(std::mt19937& random)
      : source_(static_cast<Source>(draw(random, 0, 7))),
        first_(static_cast<Step>(draw(random, 0, 7))),
        second_(static_cast<Step>(draw(random, 0, 7))),
        after_(draw(random, 0, 3)),
        pads_(draw(random, 0, 1) == 0),
        skips_(draw(random, 0, 3) == 0),
        calls_(std::make_shared<std::atomic<std::int64_t>>(0)) {
    const std::int64_t files = source_ == Source::kManyFiles ? draw(random, 64, 70) : draw(random, 4, 12);
    for (std::int64_t file = 0; file < files; ++file) {
      std::string lines;
      for (std::int64_t size = draw(random, 0, source_ == Source::kManyFiles ? 2 : 9); size > 0; --size)
        lines += std::to_string(rows_++) + "\n";
      names_.push_back(folder_.write(std::to_string(file), lines));
    }
    if (source_ == Source::kRange) rows_ = draw(random, 32, 120);
    if (source_ == Source::kExpanded) rows_ = 3 * draw(random, 2, 20);
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t calls() const { return *calls_; }
  std::string str() const {
    return c10::str("source ", static_cast<int>(source_), ", ops ", static_cast<int>(first_), " ",
                    static_cast<int>(second_), ", after ", after_, skips_ ? ", skips" : "", ", rows ", rows_);
  }

  /// How often an epoch has each row.
  Counts counts() const {
    std::int64_t copies = 1;
    for (const Step step : {first_, second_}) copies *= step == Step::kRepeat ? 2 : 1;
    Counts counts;
    for (std::int64_t row = 0; row < rows_; ++row)
      if (!skips_ || row % 7 != 3) counts[row] = copies;
    return counts;
  }

  DistributedDataset distributed(const Strategy& strategy, const World& world) const {
    return strategy.distribute_dataset(dataset(world.batch), world.options);
  }

  Dataset dataset(std::int64_t batch) const {
    Dataset read = filtered(source());
    if (skips_) read = read.map(fails_at_some).with_options(op_testing::skipping());
    const Dataset rows = with_step(with_step(read, first_), second_);
    Dataset batches = pads_ ? rows.padded_batch(batch) : rows.batch(batch);
    if (after_ == 1) batches = batches.map(same, {.row_wise = true});
    if (after_ == 2) batches = batches.prefetch(2);
    if (after_ == 3) batches = batches.map(same, {.num_parallel_calls = 2, .row_wise = true}).prefetch(1);
    return with_policy(batches, AutoShardPolicy::kStreams);
  }

 private:
  Dataset lines(std::size_t begin, std::size_t end) const {
    const std::vector<std::string> names(names_.begin() + static_cast<std::ptrdiff_t>(begin),
                                         names_.begin() + static_cast<std::ptrdiff_t>(end));
    return TextLineDataset(names, {.index = false}).to_number(at::kLong);
  }
  Dataset names() const {
    const auto count = static_cast<std::int64_t>(names_.size());
    return Dataset::range(count).shuffle({.seed = 5});
  }
  std::function<Dataset(Element)> open_file() const {
    return [names = names_](const Element& number) {
      const auto file = static_cast<std::size_t>(op_testing::scalar(number));
      return TextLineDataset({names[file]}, {.index = false}).to_number(at::kLong);
    };
  }

  Dataset source() const {
    const std::size_t half = names_.size() / 2;
    switch (source_) {
      case Source::kLines:
      case Source::kManyFiles:
        return lines(0, names_.size());
      case Source::kFlatMap:
        return names().flat_map(open_file());
      case Source::kInterleave:
        return names().interleave(open_file(), {.cycle_length = 2});
      case Source::kRange:
        return Dataset::range(rows_);
      case Source::kExpanded:
        return Dataset::range(rows_ / 3).flat_map([](const Element& number) {
          const std::int64_t first = 3 * op_testing::scalar(number);
          return Dataset::range(first, first + 3);
        });
      case Source::kMixture:
        return Dataset::sample_from_datasets({lines(0, half), lines(half, names_.size())},
                                             {.weights = {0.3, 0.7}, .seed = 4});
      case Source::kConcatenation:
        break;
    }
    return lines(0, half).concatenate(lines(half, names_.size()));
  }

  Dataset filtered(const Dataset& rows) const {
    return rows.filter([calls = calls_](const Element&) {
      ++*calls;
      return true;
    });
  }

  static Element fails_at_some(Element row) {
    if (op_testing::scalar(row) % 7 == 3) throw std::runtime_error("bad row");
    return row;
  }

  static Dataset with_step(const Dataset& rows, Step step) {
    switch (step) {
      case Step::kNone:
        return rows;
      case Step::kMap:
        return rows.map(same);
      case Step::kPrefetch:
        return rows.prefetch(2);
      case Step::kShuffle:
        return rows.shuffle({.buffer_size = 4, .seed = 3});
      case Step::kRepeat:
        return rows.repeat(2);
      case Step::kRebatched:
        return rows.batch(3).unbatch();
      case Step::kFlatMap:
        return rows.flat_map([](const Element& row) {
          return Dataset::from_tensors(Element(std::get<at::Tensor>(row.leaves().front())));
        });
      case Step::kPack:
        break;
    }
    return packed_one_by_one(rows);
  }

  Source source_;
  Step first_;
  Step second_;
  std::int64_t after_;
  bool pads_;
  bool skips_;
  std::shared_ptr<std::atomic<std::int64_t>> calls_;
  files_testing::Folder folder_;
  std::vector<std::string> names_;
  std::int64_t rows_ = 0;
};

World random_streams_world(std::mt19937& random, Tail tail) {
  World world;
  world.options.tail = tail;
  world.options.peer_timeout = 10;  // a rank that hangs fails the test
  world.ranks = static_cast<int>(draw(random, 1, 7));
  world.alone = world.ranks == 1 && draw(random, 0, 1) == 0;
  world.per_rank = draw(random, 1, 2);
  world.batch = draw(random, 1, 12);
  world.options.per_replica_buffer_size = draw(random, 0, 2);
  if (draw(random, 0, 1) == 0) {
    world.options.split = Split::kBalanced;
    if (draw(random, 0, 1) == 0) {
      world.options.weights.emplace();
      for (std::int64_t replica = 0; replica < world.ranks * world.per_rank; ++replica)
        world.options.weights->push_back(static_cast<double>(draw(random, 1, 4)));
    }
  }
  return world;
}

Tail random_tail(std::mt19937& random) {
  constexpr Tail kTails[] = {Tail::kZeroRows, Tail::kPadded, Tail::kMerge, Tail::kUntilFirst, Tail::kDrop};
  return kTails[draw(random, 0, 4)];
}

void go_on_elsewhere(std::uint32_t seed) {
  std::mt19937 random(seed);
  const StreamKitchen kitchen(random);
  const Tail tail = random_tail(random);
  std::string trace = c10::str("seed ", seed, ": ", kitchen.str());
  Counts seen;
  std::int64_t total = 0;
  std::vector<State> states;
  for (std::int64_t legs = draw(random, 2, 4); legs > 0; --legs) {
    const World world = random_streams_world(random, tail);
    const std::size_t most = legs == 1 ? 10'000 : static_cast<std::size_t>(draw(random, 0, 4));
    trace += world.str() + ", steps " + std::to_string(most);
    SCOPED_TRACE(trace);
    const auto legs_of_ranks = run(kitchen, world, states, most);
    ASSERT_NO_FATAL_FAILURE(check_and_count(legs_of_ranks, seen, total));
    states = states_of(legs_of_ranks);
    std::shuffle(states.begin(), states.end(), random);  // streams are told apart by their numbers
  }
  EXPECT_EQ(differences(kitchen.counts(), seen, tail), "") << trace;
}

TEST(Streams, EveryRowOnceAcrossRestartsOnOtherWorlds) {
  for (std::uint32_t seed = 0; seed < trials(40) && !HasFailure(); ++seed) go_on_elsewhere(seed);
}

TEST(Streams, EveryRowOnceWithARestartOnAnotherWorldAfterEachStep) {
  for (std::uint32_t seed = 0; seed < trials(15) && !HasFailure(); ++seed) {
    std::mt19937 random(seed);
    const StreamKitchen kitchen(random);
    const Tail tail = random_tail(random);
    std::string trace = c10::str("seed ", seed, ": ", kitchen.str());
    Counts seen;
    std::int64_t total = 0;
    std::vector<State> states;
    for (bool ended = false; !ended;) {
      const World world = random_streams_world(random, tail);
      trace += world.str();
      SCOPED_TRACE(trace);
      const auto legs = run(kitchen, world, states, 1);
      ASSERT_NO_FATAL_FAILURE(check_and_count(legs, seen, total));
      states = states_of(legs);
      ended = legs.front().steps.empty();
    }
    EXPECT_EQ(differences(kitchen.counts(), seen, tail), "") << trace;
  }
}

TEST(Streams, ARestartOnTheSameWorldChangesNothing) {
  for (std::uint32_t seed = 0; seed < trials(40) && !HasFailure(); ++seed) {
    std::mt19937 random(seed);
    const StreamKitchen kitchen(random);
    const World world = random_streams_world(random, random_tail(random));
    SCOPED_TRACE(c10::str("seed ", seed, ": ", kitchen.str(), world.str()));
    expect_the_same_steps_after_restarts(kitchen, world, random);
  }
}

/// One pipeline for all ranks, which has been looked at already: types of functions are found by calling
/// them.
struct Prepared {
  Dataset dataset;
  DistributedDataset distributed(const Strategy& strategy, const World& world) const {
    return strategy.distribute_dataset(dataset, world.options);
  }
};

TEST(Streams, EachFunctionRunsOnceAJob) {
  for (std::uint32_t seed = 0; seed < trials(30) && !HasFailure(); ++seed) {
    std::mt19937 random(seed);
    const StreamKitchen kitchen(random);
    const World world = random_streams_world(random, Tail::kZeroRows);
    const std::int64_t copies = kitchen.rows() == 0 ? 1 : kitchen.counts().at(0);  // row 0 never fails
    const Prepared prepared{kitchen.dataset(world.batch)};
    replicas(1).distribute_dataset(prepared.dataset);
    const std::int64_t before = kitchen.calls();
    const auto legs = run(prepared, world, {}, 10'000);
    ASSERT_EQ(legs.front().error, "");
    EXPECT_EQ(kitchen.calls() - before, copies * kitchen.rows()) << kitchen.str() << world.str();
  }
}

/// Batches of numbers that are not read by position, but whose number is known.
struct Counted {
  std::int64_t rows;
  bool drops;
  DistributedDataset distributed(const Strategy& strategy, const World& world) const {
    const Dataset batches =
        Dataset::range(rows).shuffle({.buffer_size = 3}).batch(world.batch, {.drop_remainder = drops});
    return strategy.distribute_dataset(with_policy(batches.map(same), AutoShardPolicy::kStreams),
                                       world.options);
  }
};

TEST(Streams, StepsAreCountedBeforeTheyAreReadWhereTheRowsOfStreamsAreKnown) {
  for (std::uint32_t seed = 0; seed < trials(60) && !HasFailure(); ++seed) {
    std::mt19937 random(seed);
    const Counted counted{draw(random, 32, 200), draw(random, 0, 1) == 0};
    const World world = random_streams_world(random, random_tail(random));
    const auto taken = run(counted, world, {}, 10'000);
    auto ranks = ranks_of(world.ranks, world.per_rank);
    const auto told =
        on_all(ranks, [&](std::int64_t, Rank& rank) { return counted.distributed(rank, world).num_steps(); });
    const Tail tail = world.options.tail;
    const bool each_batch_is_a_step = tail == Tail::kZeroRows || tail == Tail::kPadded;
    for (std::size_t rank = 0; rank < taken.size(); ++rank) {
      ASSERT_EQ(taken[rank].error, "");
      ASSERT_TRUE(told[rank] || !each_batch_is_a_step) << world.str();
      EXPECT_EQ(told[rank].value_or(std::ssize(taken[rank].steps)), std::ssize(taken[rank].steps))
          << counted.rows << world.str();
    }
  }
}

TEST(Streams, FilesAreNotReadToCountSteps) {
  const files_testing::Folder folder;
  std::vector<std::string> names;
  for (int file = 0; file < 64; ++file) names.push_back(folder.write(std::to_string(file), "1\n2\n"));
  const Dataset lines = with_policy(TextLineDataset(names).batch(4), AutoShardPolicy::kStreams);
  const DistributedDataset whole = replicas(1).distribute_dataset(lines);
  EXPECT_EQ(whole.cardinality(), kUnknownCardinality);
  EXPECT_EQ(whole.num_steps(), std::nullopt);
  const Dataset filtered = TextLineDataset(names).filter([](const Element&) { return true; });
  const Dataset asserted = with_policy(filtered.assert_cardinality(128).batch(4), AutoShardPolicy::kStreams);
  EXPECT_EQ(replicas(1).distribute_dataset(asserted).num_steps(), 32);
  auto ranks = ranks_of(2);  // how many of the rows each of them has is not known
  const auto told =
      on_all(ranks, [&](std::int64_t, Rank& rank) { return rank.distribute_dataset(asserted).num_steps(); });
  EXPECT_EQ(told[0], std::nullopt);
  const Dataset endless = with_policy(filtered.repeat().batch(4), AutoShardPolicy::kStreams);
  EXPECT_EQ(replicas(1).distribute_dataset(endless).cardinality(), kInfiniteCardinality);
}

Dataset filtered_numbers(AutoShardPolicy policy) {
  return with_policy(Dataset::range(99).filter([](const Element&) { return true; }).batch(6), policy);
}

/// The states of the ranks after two steps.
State::List states_under(AutoShardPolicy policy, int num_ranks) {
  auto ranks = ranks_of(num_ranks);
  return on_all(ranks, [&](std::int64_t, Rank& rank) {
    DistributedIterator iterator = rank.distribute_dataset(filtered_numbers(policy)).iterate();
    iterator.next();
    iterator.next();
    return iterator.save();
  });
}

std::string refusal_of(const State& state, int num_ranks,
                       AutoShardPolicy policy = AutoShardPolicy::kStreams) {
  auto ranks = ranks_of(num_ranks);
  DistributedIterator iterator = ranks[0].distribute_dataset(filtered_numbers(policy)).iterate();
  return message_of<c10::ValueError>([&] { iterator.load(state); });
}

TEST(Streams, APositionGoesOnUnderItsPolicyOnly) {
  const State::List streams = states_under(AutoShardPolicy::kStreams, 2);
  EXPECT_TRUE(has(refusal_of(streams, 2, AutoShardPolicy::kData),
                  "saved under policy STREAMS, but here it is applied as DATA"));
  const State::List shared = states_under(AutoShardPolicy::kData, 2);
  EXPECT_TRUE(has(refusal_of(shared, 2), "saved under another policy than STREAMS"));
}

TEST(Streams, StatesThatDoNotHaveEachStreamOnceAreRefused) {
  const State::List two = states_under(AutoShardPolicy::kStreams, 2);
  EXPECT_TRUE(has(refusal_of(two[1], 2),
                  "saved by one of 2 ranks, which read streams 3 to 5 of 6, but this is rank 0 of 2"));
  EXPECT_TRUE(has(refusal_of(two[0], 3), "pass the states of all ranks of that run, as a list"));
  EXPECT_TRUE(has(
      refusal_of(State::List{two[0], two[0]}, 3),
      "where stream 3 should follow, there is a state of streams 0 to 2 of 6; pass the states of all ranks"));
  EXPECT_TRUE(
      has(refusal_of(State::List{two[0], two[1], two[1]}, 3), "saved by 2 ranks, but there are 3 states"));
  EXPECT_TRUE(has(refusal_of(State::List{two[0], State(two[1]).set("step", 1)}, 3),
                  "`step` is 2 in that of streams 0 to 2 of 6 and 1 in that of streams 3 to 5 of 6"));
  EXPECT_TRUE(has(refusal_of(State::List{two[0], State(two[1]).set("cut", "files")}, 3),
                  "saved of streams of files"));
  EXPECT_TRUE(has(refusal_of(State::List{}, 3), "the list of states is empty"));
}

}  // namespace
}  // namespace torch_distinput::distribute_testing
