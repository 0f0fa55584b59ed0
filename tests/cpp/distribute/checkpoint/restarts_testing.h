// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "distribute/multi_worker_testing.h"
#include "io/sample_files.h"
#include "torch_distinput/files.h"
#include "torch_distinput/tokens.h"

/// Runs that are stopped and resumed elsewhere: random pipelines and worlds, and the steps of each run.
namespace torch_distinput::distribute_testing {

enum class Data {
  kFiles,
  kUnindexedFiles,
  kRows,
  kGenerator,
  kWholeForEach,
  kHinted,
  kFunction,
  kParsedLines,  ///< parsed by an op of this library before `batch`
  kLines,        ///< parsed by it after all other ops
  kTokens,       ///< of files, one in each sequence
  kPacked,       ///< documents of one token, packed in rows of one
};
enum class Op { kNone, kMap, kRowWiseMap, kFilter, kPrefetch, kShuffle, kCache, kRebatch, kUnbatch, kRepeat };

inline std::int64_t draw(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

/// Each of the numbers `rows` as a document of one token, in a packed row of one, and a number again.
inline Dataset packed_one_by_one(const Dataset& rows) {
  const auto document = [](const Element& row) {
    return Element(std::get<at::Tensor>(row.leaves().front()).reshape({1}));
  };
  const auto token = [](const Element& row) {
    const auto& keys = row.structure()->keys();
    const auto leaf = std::find(keys.begin(), keys.end(), "tokens") - keys.begin();
    return Element(std::get<at::Tensor>(row.leaves()[static_cast<std::size_t>(leaf)]).reshape({}));
  };
  return rows.map(document).pack(1).map(token);
}

/// Some processes with some replicas each, and how the rows of a pipeline are assigned to them.
struct World {
  int ranks = 1;
  std::int64_t per_rank = 1;
  bool alone = false;  ///< the only process is in no group
  std::int64_t batch = 1;
  InputOptions options = {};

  std::string str() const {
    return c10::str("\n  ", ranks, " x ", per_rank, alone ? " alone" : "", ", batch ", batch, ", split ",
                    static_cast<int>(options.split), ", tail ", static_cast<int>(options.tail), ", buffer ",
                    options.per_replica_buffer_size);
  }
};

/// A pipeline of numbered rows.
struct Recipe {
  Data data = Data::kRows;
  std::vector<std::int64_t> sizes = {};  ///< rows of each file, or of each process
  Op before = Op::kNone;                 ///< the op before `batch`
  Op after = Op::kNone;

  std::int64_t rows() const { return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}); }
  /// Whether the number of processes may change.
  bool any_world_size() const {
    return data != Data::kWholeForEach && data != Data::kHinted && data != Data::kFunction;
  }
  /// Whether the batch size may change, which is so if no op depends on batches.
  bool any_batch() const {
    return (before == Op::kNone || before == Op::kPrefetch || before == Op::kRowWiseMap ||
            before == Op::kMap || before == Op::kFilter || before == Op::kShuffle) &&
           (after == Op::kNone || after == Op::kRowWiseMap || after == Op::kPrefetch);
  }
  bool files() const {
    return data == Data::kFiles || data == Data::kUnindexedFiles || data == Data::kParsedLines ||
           data == Data::kLines || data == Data::kTokens;
  }
  bool one_stream() const { return data == Data::kRows || data == Data::kGenerator || data == Data::kPacked; }

  std::string str() const {
    std::string text = c10::str("data ", static_cast<int>(data), ", before ", static_cast<int>(before),
                                ", after ", static_cast<int>(after), ", sizes");
    for (const auto size : sizes) text += " " + std::to_string(size);
    return text;
  }
};

inline Dataset with_op(const Dataset& dataset, Op op, std::int64_t batch) {
  switch (op) {
    case Op::kNone:
      return dataset;
    case Op::kMap:
      return dataset.map(same);
    case Op::kRowWiseMap:
      return dataset.map(same, {.row_wise = true});
    case Op::kFilter:
      return dataset.filter([](const Element&) { return true; });
    case Op::kPrefetch:
      return dataset.prefetch(2);
    case Op::kShuffle:
      return dataset.shuffle({.buffer_size = 4, .seed = 3});
    case Op::kCache:
      return dataset.cache();
    case Op::kRebatch:
      return dataset.rebatch({batch + 1, batch});
    case Op::kUnbatch:
      return dataset.unbatch().batch(batch);
    case Op::kRepeat:
      return dataset.repeat(2);
  }
  return dataset;
}

/// Makes the files and the pipelines of a recipe.
class Kitchen {
 public:
  explicit Kitchen(Recipe recipe) : recipe_(std::move(recipe)) {
    std::int64_t number = 0;
    for (const std::int64_t size : recipe_.sizes) {
      names_.push_back(folder_.write(std::to_string(names_.size()), contents(number, size)));
      number += size;
    }
  }
  const Recipe& recipe() const { return recipe_; }

  /// `process`: the process whose function makes the pipeline.
  Dataset dataset(std::int64_t batch, std::int64_t process = 0) const {
    const Dataset rows = with_op(source(process), recipe_.before, 1);
    const Dataset batches = with_op(rows.batch(batch), recipe_.after, batch);
    return recipe_.data == Data::kLines ? batches.to_number(at::kLong) : batches;
  }

  DistributedDataset distributed(const Strategy& strategy, const World& world) const {
    if (recipe_.data == Data::kFunction) {
      return strategy.distribute_datasets_from_function(
          [&](const InputContext& context) { return dataset(world.batch, context.input_pipeline_id); },
          world.options);
    }
    return strategy.distribute_dataset(dataset(world.batch), world.options);
  }

  /// How often an epoch of `ranks` processes has each row.
  std::map<std::int64_t, std::int64_t> counts(int ranks) const {
    std::map<std::int64_t, std::int64_t> counts;
    const auto per_epoch = [&](Op op) { return op == Op::kRepeat ? 2 : 1; };
    const auto& sizes = recipe_.sizes;
    const std::int64_t rows = recipe_.data == Data::kFunction
                                  ? std::accumulate(sizes.begin(), sizes.begin() + ranks, std::int64_t{0})
                                  : recipe_.rows();
    const std::int64_t copies = recipe_.data == Data::kWholeForEach ? ranks : 1;
    for (std::int64_t row = 0; row < rows; ++row)
      counts[row] = copies * per_epoch(recipe_.before) * per_epoch(recipe_.after);
    return counts;
  }

 private:
  /// A file of the rows [first, first + size).
  std::string contents(std::int64_t first, std::int64_t size) const {
    std::string lines;
    for (std::int64_t row = first; row < first + size; ++row) lines += std::to_string(row) + "\n";
    if (recipe_.data != Data::kTokens) return lines;
    // The last token is only the target of the one before it.
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(size) + 1);
    std::iota(tokens.begin(), tokens.end(), first);
    return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(std::int64_t)};
  }

  /// A row of sequences of one token as that token.
  static Element only_token(const Element& row) {
    return Element(std::get<at::Tensor>(row.leaves().front()).reshape({}));
  }

  Dataset source(std::int64_t process) const {
    switch (recipe_.data) {
      case Data::kParsedLines:
        return TextLineDataset(names_).to_number(at::kLong);
      case Data::kLines:
        return TextLineDataset(names_);
      case Data::kTokens:
        return TokenDataset(names_, at::kLong, {.sequence_length = 1}).map(only_token);
      case Data::kPacked:
        return packed_one_by_one(Dataset::range(recipe_.rows()));
      case Data::kFiles:
      case Data::kUnindexedFiles:
        return TextLineDataset(names_, {.index = recipe_.data == Data::kFiles}).map([](const Element& line) {
          const auto& bytes = std::get<Bytes>(line.leaves().front());
          return Element(at::full({}, std::stoll(std::string(bytes[0])), at::kLong));
        });
      case Data::kRows:
        return Dataset::range(recipe_.rows());
      case Data::kGenerator:
        return op_testing::generated(recipe_.rows());
      case Data::kWholeForEach:
        return with_policy(Dataset::range(recipe_.rows()), AutoShardPolicy::kOff);
      case Data::kHinted:
        return with_policy(Dataset::range(recipe_.rows()).shard(kShardHint, 0), AutoShardPolicy::kHint);
      case Data::kFunction:
        break;
    }
    std::int64_t first = 0;
    for (std::int64_t i = 0; i < process; ++i) first += recipe_.sizes[static_cast<std::size_t>(i)];
    return Dataset::range(first, first + recipe_.sizes[static_cast<std::size_t>(process)]);
  }

  Recipe recipe_;
  files_testing::Folder folder_;
  std::vector<std::string> names_;
};

/// A run as one process saw it, and its state afterwards.
struct Leg {
  Steps steps = {};
  std::vector<std::vector<std::int64_t>> valid = {};
  std::vector<std::vector<bool>> has_value = {};
  std::vector<std::int64_t> row_start = {};
  bool completes = true;  ///< steps with missing parts are delivered
  std::string error = {};
  State state = {};
};

/// `Kitchen`: makes the distributed dataset of a world.
template <class Kitchen>
Leg run_one(const Strategy& strategy, const Kitchen& kitchen, const World& world,
            const std::vector<State>& states, std::size_t most) {
  Leg leg;
  try {
    const DistributedDataset distributed = kitchen.distributed(strategy, world);
    leg.completes = distributed.partial_batch_handling();
    DistributedIterator iterator = distributed.iterate();
    if (!states.empty()) iterator.load(State(State::List(states.begin(), states.end())));
    while (leg.steps.size() < most) {
      const auto step = iterator.next();
      if (!step) break;
      leg.steps.push_back(rows(*step));
      leg.valid.push_back(step->info().valid);
      leg.has_value.push_back(step->info().has_value);
      leg.row_start.push_back(step->info().row_start);
    }
    leg.state = iterator.save();
  } catch (const c10::Error& error) {
    leg.error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    leg.error = error.what();
  }
  return leg;
}

/// Runs the processes of `world` from `states`, or from the start if it is empty, for at most `most` steps.
template <class Kitchen>
std::vector<Leg> run(const Kitchen& kitchen, const World& world, const std::vector<State>& states,
                     std::size_t most) {
  if (world.alone) return {run_one(replicas(world.per_rank), kitchen, world, states, most)};
  auto ranks = ranks_of(world.ranks, world.per_rank);
  return on_all(ranks, [&](std::int64_t, Rank& rank) { return run_one(rank, kitchen, world, states, most); });
}

inline std::vector<State> states_of(const std::vector<Leg>& legs) {
  std::vector<State> states;
  for (const Leg& leg : legs) states.push_back(leg.state);
  return states;
}

using Counts = std::map<std::int64_t, std::int64_t>;

/// `usual`, or the value of the environment variable `TDI_RESTARTS`.
inline std::uint32_t trials(std::uint32_t usual) {
  const char* const wanted = std::getenv("TDI_RESTARTS");
  return wanted == nullptr ? usual : static_cast<std::uint32_t>(std::stoul(wanted));
}

/// Checks that every rank took the same steps and that they begin where those before ended. Adds the rows
/// that count to `seen` and `total`.
inline void check_and_count(const std::vector<Leg>& legs, Counts& seen, std::int64_t& total) {
  for (const Leg& leg : legs) {
    ASSERT_EQ(leg.error, "");
    ASSERT_EQ(leg.steps.size(), legs.front().steps.size());
    ASSERT_EQ(leg.row_start, legs.front().row_start);
  }
  for (std::size_t step = 0; step < legs.front().steps.size(); ++step) {
    ASSERT_EQ(legs.front().row_start[step], total) << "step " << step;
    for (const Leg& leg : legs)
      for (std::size_t replica = 0; replica < leg.steps[step].size(); ++replica)
        for (std::int64_t i = 0; i < leg.valid[step][replica]; ++i, ++total)
          ++seen[leg.steps[step][replica].at(static_cast<std::size_t>(i))];
  }
}

/// The rows that were delivered more or less often than `tail` allows.
inline std::string differences(const Counts& wanted, const Counts& seen, Tail tail) {
  const bool may_miss = tail == Tail::kDrop || tail == Tail::kUntilFirst;
  std::string text;
  for (const auto& [row, count] : seen) {
    const auto found = wanted.find(row);
    const std::int64_t most = found == wanted.end() ? 0 : found->second;
    if (count > most && (most == 0 || tail != Tail::kRepeat)) text += " too often " + std::to_string(row);
  }
  for (const auto& [row, count] : wanted) {
    const auto found = seen.find(row);
    if (!may_miss && (found == seen.end() || found->second < count)) text += " lost " + std::to_string(row);
  }
  return text;
}

template <class T>
std::vector<T> from(const std::vector<T>& all, std::size_t first) {
  return {all.begin() + static_cast<std::ptrdiff_t>(first), all.end()};
}

/// Checks that runs that are stopped and resumed in one world take the same steps as one run.
template <class Kitchen>
void expect_the_same_steps_after_restarts(const Kitchen& kitchen, const World& world, std::mt19937& random) {
  const auto whole = run(kitchen, world, {}, 10'000);
  const std::size_t steps = whole.front().steps.size();
  const auto cut = static_cast<std::size_t>(draw(random, 0, static_cast<std::int64_t>(steps)));
  const auto again = cut + static_cast<std::size_t>(draw(random, 0, static_cast<std::int64_t>(steps - cut)));
  const auto one = run(kitchen, world, {}, cut);
  const auto two = run(kitchen, world, states_of(one), again - cut);
  const auto rest = run(kitchen, world, states_of(two), 10'000);
  for (std::size_t rank = 0; rank < whole.size(); ++rank) {
    SCOPED_TRACE(c10::str("rank ", rank, ", stopped after ", cut, " and ", again, " of ", steps, " steps"));
    EXPECT_EQ(rest[rank].error, "");
    ASSERT_EQ(rest[rank].steps, from(whole[rank].steps, again));
    ASSERT_EQ(rest[rank].valid, from(whole[rank].valid, again));
    ASSERT_EQ(rest[rank].has_value, from(whole[rank].has_value, again));
    ASSERT_EQ(rest[rank].row_start, from(whole[rank].row_start, again));
  }
}

inline Recipe random_recipe(std::mt19937& random) {
  Recipe recipe;
  recipe.data = static_cast<Data>(draw(random, 0, static_cast<std::int64_t>(Data::kPacked)));
  // May be fewer files than processes.
  recipe.sizes.resize(static_cast<std::size_t>(draw(random, recipe.data == Data::kFunction ? 4 : 1, 7)));
  for (auto& size : recipe.sizes) size = draw(random, 0, 11);
  if (recipe.data == Data::kHinted) recipe.sizes.front() += 4;  // at least one row for each process
  constexpr Op kBefore[] = {Op::kNone, Op::kMap, Op::kFilter, Op::kPrefetch, Op::kShuffle, Op::kRepeat};
  recipe.before = kBefore[draw(random, 0, 5)];
  recipe.after = static_cast<Op>(draw(random, 0, 9));
  return recipe;
}

/// `tail`: the same for all worlds of a chain.
inline World random_world(std::mt19937& random, const Recipe& recipe, Tail tail) {
  World world;
  world.options.tail = tail;
  world.options.peer_timeout = 10;  // a rank that hangs fails the test
  // Tail::kRepeat needs one stream or one process.
  const bool one = tail == Tail::kRepeat && !recipe.one_stream();
  world.ranks = one ? 1 : static_cast<int>(draw(random, 1, 4));
  world.alone = world.ranks == 1 && (one || draw(random, 0, 1) == 0);
  world.per_rank = draw(random, 1, 3);
  world.batch = draw(random, 1, 9);
  world.options.per_replica_buffer_size = draw(random, 0, 2);
  if (recipe.data != Data::kFunction && draw(random, 0, 1) == 0) world.options.split = Split::kBalanced;
  return world;
}

}  // namespace torch_distinput::distribute_testing
