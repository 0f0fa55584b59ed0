// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "distribute/model.h"
#include "ops/op_testing.h"
#include "torch_distinput/strategy.h"

/// Helpers of the tests of distribution: pipelines of int64 rows, and steps as lists of those rows.
namespace torch_distinput::distribute_testing {

using model::Rows;
using op_testing::items;
using op_testing::same;

inline MirroredStrategy replicas(std::int64_t count) {
  return MirroredStrategy(std::vector<std::string>(static_cast<std::size_t>(count), "cpu"));
}

inline Dataset with_policy(const Dataset& dataset, AutoShardPolicy policy) {
  return dataset.with_options({.auto_shard_policy = policy});
}

inline std::vector<Rows> rows(const PerReplica& step) {
  std::vector<Rows> parts;
  for (const Element& part : step) parts.push_back(items(part));
  return parts;
}

using Steps = std::vector<std::vector<Rows>>;

inline Steps steps(DistributedIterator& iterator, std::size_t most = 1000) {
  Steps result;
  while (result.size() < most) {
    const auto step = iterator.next();
    if (!step) break;
    result.push_back(rows(*step));
  }
  return result;
}

inline Steps steps(const DistributedDataset& dataset, IterateOptions options = {.epoch = 0}) {
  DistributedIterator iterator = dataset.iterate(options);
  return steps(iterator);
}

inline Steps steps(const Dataset& dataset, std::int64_t count,
                   AutoShardPolicy policy = AutoShardPolicy::kAuto, InputOptions options = {}) {
  return steps(replicas(count).distribute_dataset(with_policy(dataset, policy), std::move(options)));
}

/// How the batches of a pipeline are made, which decides the path.
enum class Source {
  kBatch,       ///< a plan that knows its rows
  kRowWiseMap,  ///< the same; the batch size cannot be inferred
  kMap,         ///< a plan that does not know its rows
  kFilter,      ///< no plan
};

/// A pipeline `range(n).batch(batch).repeat(rounds)`, how it is assigned, and the steps that it must yield.
struct Pipeline {
  std::int64_t n = 0;
  std::int64_t batch = 1;
  std::int64_t rounds = 1;
  bool drop_remainder = false;
  Source source = Source::kBatch;
  std::int64_t replicas = 2;
  AutoShardPolicy policy = AutoShardPolicy::kAuto;
  InputOptions options = {};
  /// A dataset of 0, 1, ..., `n` - 1 that the rows come from.
  std::function<Dataset(std::int64_t n)> rows = [](std::int64_t n) { return Dataset::range(n); };

  Dataset dataset() const;
  DistributedDataset distributed() const {
    return distribute_testing::replicas(replicas).distribute_dataset(with_policy(dataset(), policy), options);
  }
  /// The value of each row of an epoch, in order.
  Rows values() const;
  /// This pipeline as a case of the model, which numbers the rows.
  model::Case model() const;
  std::vector<model::Step> expected() const;
  std::string str() const;

 private:
  std::vector<std::int64_t> round() const;
};

inline Dataset Pipeline::dataset() const {
  Dataset all = rows(n);
  if (source == Source::kFilter) all = all.filter([](const Element&) { return true; });
  Dataset batches = all.batch(batch, {.drop_remainder = drop_remainder});
  if (source == Source::kMap) batches = batches.map(same);
  if (source == Source::kRowWiseMap) batches = batches.map(same, {.row_wise = true});
  return rounds == 1 ? batches : batches.repeat(rounds);
}

inline std::vector<std::int64_t> Pipeline::round() const {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(n / batch), batch);
  if (n % batch != 0 && !drop_remainder) sizes.push_back(n % batch);
  return sizes;
}

inline Rows Pipeline::values() const {
  Rows all;
  for (std::int64_t r = 0; r < rounds; ++r) {
    std::int64_t value = 0;
    for (const std::int64_t size : round()) {
      for (std::int64_t i = 0; i < size; ++i) all.push_back(value++);
    }
  }
  return all;
}

inline model::Case Pipeline::model() const {
  model::Case c;
  for (std::int64_t r = 0; r < rounds; ++r) {
    for (const std::int64_t size : round()) c.elements.push_back(size);
  }
  c.replicas = replicas;
  c.tail = options.tail;
  const bool inferred =
      source == Source::kBatch || source == Source::kFilter || (drop_remainder && n >= batch);
  if (inferred) c.batch = batch;
  if (replicas == 1) {
    c.kind = model::Kind::kWhole;
  } else if (options.split == Split::kBalanced) {
    c.kind = model::Kind::kBalanced;
    c.weights = options.weights.value_or(std::vector<double>{});
  } else {
    const bool data = policy == AutoShardPolicy::kAuto || policy == AutoShardPolicy::kData;
    c.kind = data || !inferred ? model::Kind::kLegacy : model::Kind::kV2;
  }
  return c;
}

/// The model's steps, with row values in the place of row numbers.
inline std::vector<model::Step> Pipeline::expected() const {
  const Rows value_of = values();
  std::vector<model::Step> result = model::steps(model());
  for (model::Step& step : result) {
    for (Rows& part : step.parts) {
      for (std::int64_t& row : part) row = value_of[static_cast<std::size_t>(row)];
    }
  }
  return result;
}

inline std::string Pipeline::str() const {
  return "n " + std::to_string(n) + " batch " + std::to_string(batch) + " rounds " + std::to_string(rounds) +
         " drop " + std::to_string(drop_remainder) + " source " + std::to_string(static_cast<int>(source)) +
         " replicas " + std::to_string(replicas) + " policy " + std::to_string(static_cast<int>(policy)) +
         " split " + std::to_string(static_cast<int>(options.split)) + " tail " +
         std::to_string(static_cast<int>(options.tail)) + " buffer " +
         std::to_string(options.per_replica_buffer_size);
}

inline Pipeline random_pipeline(std::mt19937& random) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Pipeline p;
  p.n = draw(0, 23);
  p.batch = draw(1, 9);
  p.rounds = draw(1, 2);
  p.drop_remainder = draw(0, 3) == 0;
  p.source = static_cast<Source>(draw(0, 3));
  p.replicas = draw(1, 4);
  constexpr AutoShardPolicy kPolicies[] = {AutoShardPolicy::kOff, AutoShardPolicy::kAuto,
                                           AutoShardPolicy::kFile, AutoShardPolicy::kData};
  p.policy = kPolicies[draw(0, 3)];
  p.options.tail = static_cast<Tail>(draw(0, 5));
  p.options.per_replica_buffer_size = draw(0, 2);
  if (draw(0, 1) == 0) {
    p.options.split = Split::kBalanced;
    if (draw(0, 1) == 0) {
      p.options.weights.emplace();
      for (std::int64_t g = 0; g < p.replicas; ++g)
        p.options.weights->push_back(static_cast<double>(draw(1, 4)));
    }
  }
  return p;
}

}  // namespace torch_distinput::distribute_testing
