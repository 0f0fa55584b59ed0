// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include <ATen/ops/arange.h>

#include "ops/op_testing.h"

/// Random pipelines of all kinds of ops.
namespace torch_distinput::op_testing {

/// A pipeline under construction, of int64 scalars or nested batches of them.
struct Pipeline {
  Dataset dataset;
  std::string text;
  std::int64_t size = 0;      ///< the number of elements of the source
  int depth = 0;              ///< the number of batch dims of its elements
  bool only_permutes = true;  ///< it yields every number of the source exactly once
};

/// Builds random pipelines, the same ones for the same seed.
class Builder {
 public:
  /// A dataset of 0, 1, ..., `size` - 1.
  using Source = std::function<Dataset(std::int64_t size)>;

  /// Over `source`; empty: over any source in memory.
  explicit Builder(std::uint32_t seed, Source source = {}) : random_(seed), source_(std::move(source)) {}

  Pipeline build() {
    Pipeline pipeline = source();
    for (std::int64_t ops = number(1, 6); ops > 0; --ops) add_op(pipeline);
    return pipeline;
  }

 private:
  using Op = void (Builder::*)(Pipeline&);

  std::int64_t number(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }

  Pipeline source() {
    const std::int64_t size = number(0, 13);
    const std::string text = "(" + std::to_string(size) + ")";
    if (source_) return {source_(size), "source" + text, size};
    switch (number(0, 2)) {
      case 0:
        return {Dataset::range(size), "range" + text, size};
      case 1:
        return {Dataset::from_tensor_slices(at::arange(size)), "slices" + text, size};
      default:
        return {generated(size), "generated" + text, size};
    }
  }

  void add_op(Pipeline& pipeline) {
    static constexpr Op kOps[] = {
        &Builder::shuffle, &Builder::window,          &Builder::batch, &Builder::unbatch,
        &Builder::rebatch, &Builder::repeat,          &Builder::take,  &Builder::skip,
        &Builder::shard,   &Builder::number_elements, &Builder::zip,   &Builder::concatenate,
        &Builder::cache,   &Builder::prefetch,        &Builder::map,   &Builder::parallel_map,
        &Builder::filter,  &Builder::with_options,    &Builder::mix};
    (this->*kOps[static_cast<std::size_t>(number(0, std::ssize(kOps) - 1))])(pipeline);
  }

  static void append(Pipeline& pipeline, Dataset dataset, const std::string& text) {
    pipeline.dataset = std::move(dataset);
    pipeline.text += "." + text;
  }
  std::optional<std::int64_t> seed() {
    return number(0, 1) == 0 ? std::nullopt : std::optional(number(0, 99));
  }

  void shuffle(Pipeline& p) {
    if (p.dataset.cardinality() < 0 || plan_of(p.dataset) == nullptr) return window(p);
    append(p, p.dataset.shuffle({.seed = seed(), .reshuffle_each_iteration = number(0, 1) == 0}),
           "shuffle()");
  }
  void window(Pipeline& p) {
    const std::int64_t size = number(1, 9);
    append(p, p.dataset.shuffle({.buffer_size = size, .seed = seed()}),
           "shuffle(" + std::to_string(size) + ")");
  }
  void batch(Pipeline& p) {
    const std::int64_t size = number(1, 5);
    // A batch of unequal batches is an error, so batches are not batched again.
    if (p.depth > 0) return;
    const bool drop = number(0, 3) == 0;
    append(p, p.dataset.batch(size, {.drop_remainder = drop}),
           "batch(" + std::to_string(size) + (drop ? ", drop)" : ")"));
    ++p.depth;
    if (drop) p.only_permutes = false;
  }
  void unbatch(Pipeline& p) {
    if (p.depth == 0) return;
    append(p, p.dataset.unbatch(), "unbatch()");
    --p.depth;
  }
  void rebatch(Pipeline& p) {
    if (p.depth > 0) append(p, p.dataset.rebatch({2, 0, 3}), "rebatch(2, 0, 3)");
  }
  void repeat(Pipeline& p) {
    const std::int64_t count = number(-1, 3);
    Dataset repeated = p.dataset.repeat(count);
    append(p, count == -1 ? repeated.take(11) : repeated, "repeat(" + std::to_string(count) + ")");
    p.only_permutes = p.only_permutes && count == 1;
  }
  void mix(Pipeline& p) {
    const std::int64_t weight = number(0, 3);
    const bool first = number(0, 3) == 0;
    append(p,
           Dataset::sample_from_datasets({p.dataset, p.dataset.take(4)},
                                         {.weights = {2, static_cast<double>(weight)},
                                          .seed = seed(),
                                          .stop_on = first ? StopOn::kFirst : StopOn::kAll}),
           "mix(" + std::to_string(weight) + (first ? ", first)" : ")"));
    p.only_permutes = p.only_permutes && weight == 0;
  }
  void take(Pipeline& p) {
    const std::int64_t count = number(-1, 9);
    append(p, p.dataset.take(count), "take(" + std::to_string(count) + ")");
    p.only_permutes = p.only_permutes && count == -1;
  }
  void skip(Pipeline& p) {
    const std::int64_t count = number(0, 4);
    append(p, p.dataset.skip(count), "skip(" + std::to_string(count) + ")");
    p.only_permutes = p.only_permutes && count == 0;
  }
  void shard(Pipeline& p) {
    const std::int64_t shards = number(1, 3);
    const std::int64_t index = number(0, shards - 1);
    append(p, p.dataset.shard(shards, index),
           "shard(" + std::to_string(shards) + ", " + std::to_string(index) + ")");
    p.only_permutes = p.only_permutes && shards == 1;
  }
  void number_elements(Pipeline& p) {
    const auto add = [](const Element& pair) { return Element(pair.tensor(0) * 100 + pair.tensor(1)); };
    append(p, p.dataset.enumerate(number(-2, 2)).map(add), "enumerate().map()");
    p.only_permutes = false;
  }
  void zip(Pipeline& p) {
    const Dataset other = p.dataset.take(number(0, 9));
    const auto first = [](const Element& pair) { return Element(pair.tensor(0) * 10); };
    append(p, Dataset::zip({p.dataset, other}).map(first), "zip().map()");
    p.only_permutes = false;
  }
  void concatenate(Pipeline& p) {
    append(p, p.dataset.concatenate(p.dataset.take(number(0, 3))), "concatenate()");
    p.only_permutes = false;
  }
  void cache(Pipeline& p) { append(p, p.dataset.cache(), "cache()"); }
  void prefetch(Pipeline& p) {
    const std::int64_t size = number(-1, 3);
    append(p, p.dataset.prefetch(size), "prefetch(" + std::to_string(size) + ")");
  }
  void map(Pipeline& p) {
    const bool row_wise = number(0, 1) == 0;
    append(p, p.dataset.map([](const Element& e) { return Element(e.tensor() + 0); }, {.row_wise = row_wise}),
           row_wise ? "map(row_wise)" : "map()");
  }
  void parallel_map(Pipeline& p) {
    const auto negate = [](const Element& e) { return Element(e.tensor() * -1); };
    const bool in_user_code = number(0, 1) == 0;
    const FunctionPtr function = in_user_code ? runs_user_code(negate) : make_function(negate);
    append(p, p.dataset.map(function, {.num_parallel_calls = number(1, 3)}),
           in_user_code ? "map(user, parallel)" : "map(parallel)");
    p.only_permutes = false;
  }
  void filter(Pipeline& p) {
    const auto keep = [](const Element& e) { return e.tensor().sum().item<std::int64_t>() % 3 != 0; };
    append(p, p.dataset.filter(keep), "filter()");
    p.only_permutes = false;
  }
  void with_options(Pipeline& p) {
    append(p, p.dataset.with_options({.prefetch = number(0, 3)}), "with_options()");
  }

  std::mt19937 random_;
  Source source_;
};

}  // namespace torch_distinput::op_testing
