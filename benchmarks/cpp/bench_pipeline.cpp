// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
//
// Whole pipelines through the public C++ API, beside the memory limit on the same rows:
//
//   limit/<rows>             bare gather loop, arguments: threads, buffers each has
//   batches/<rows>           from_tensor_slices().shuffle().batch(), a fresh epoch whenever one ends
//   windowed/<path>          rows_20 shuffled in windows of 4,096, in each path
//   three_replicas/<rows>    as batches, assigned over three replicas of one process
//   elements/<path>          one element at a time, which shows what an element costs in each path
//   measuring/<rows>         what the counters of `stats` cost a batch, all of it made in the caller's thread
//
// An iteration is one batch, step or element; items are rows.
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>
#include <benchmark/benchmark.h>

#include "base/stage.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "limit.h"
#include "torch_distinput/torch_distinput.h"

namespace torch_distinput {
namespace {

struct Rows {
  std::int64_t count;
  std::int64_t batch;
  std::vector<at::Tensor> leaves;

  Element element() const {
    if (leaves.size() == 1) return leaves.front();
    return Element::tuple({leaves.begin(), leaves.end()});
  }
  std::int64_t bytes() const {
    std::int64_t total = 0;
    for (const at::Tensor& leaf : leaves) total += static_cast<std::int64_t>(leaf.nbytes()) / count;
    return total;
  }
};

at::Tensor touched(at::IntArrayRef shape, c10::ScalarType dtype) {
  at::Tensor tensor = at::empty(shape, dtype);
  std::memset(tensor.mutable_data_ptr(), 1, tensor.nbytes());
  return tensor;
}

const Rows& rows_20() {
  static const Rows rows{1'000'000, 256, {touched({1'000'000, 20}, at::kFloat)}};
  return rows;
}

const Rows& rows_128() {
  static const Rows rows{
      1'000'000, 256, {touched({1'000'000, 128}, at::kFloat), touched({1'000'000}, at::kLong)}};
  return rows;
}

const Rows& images() {
  static const Rows rows{12'000, 64, {touched({12'000, 3, 224, 224}, at::kByte)}};
  return rows;
}

using RowsFunction = const Rows& (*)();

void count(benchmark::State& state, const Rows& rows, std::int64_t rows_done) {
  state.SetItemsProcessed(rows_done);
  state.SetBytesProcessed(rows_done * rows.bytes());
}

void bench_limit(benchmark::State& state, RowsFunction make) {
  const Rows& rows = make();
  std::vector<limit::Leaf> leaves;
  for (const at::Tensor& leaf : rows.leaves) {
    leaves.push_back({static_cast<const char*>(leaf.const_data_ptr()),
                      static_cast<std::int64_t>(leaf.nbytes()) / rows.count});
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows.count));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  const std::int64_t batches = rows.count / rows.batch;
  while (state.KeepRunningBatch(batches)) {
    state.SetIterationTime(limit::measure(leaves, order, rows.batch, state.range(0), state.range(1)).wall);
  }
  count(state, rows, state.iterations() * rows.batch);
}

Dataset pipeline(const Rows& rows, std::optional<std::int64_t> window) {
  return Dataset::from_tensor_slices(rows.element())
      .shuffle({.buffer_size = window, .seed = 1})
      .batch(rows.batch);
}

void iterate(benchmark::State& state, const Rows& rows, const Dataset& dataset, bool stream_only) {
  DatasetIterator iterator = dataset.iterate({.stream_only = stream_only});
  std::int64_t allocations = 0;
  for (auto _ : state) {
    std::optional<Element> batch = iterator.next();
    if (!batch) {
      allocations += iterator.stats().allocations;
      iterator = dataset.iterate({.stream_only = stream_only});
      batch = iterator.next();
    }
    benchmark::DoNotOptimize(batch);
  }
  count(state, rows, state.iterations() * rows.batch);
  state.counters["allocations"] = static_cast<double>(allocations + iterator.stats().allocations);
}

void bench_batches(benchmark::State& state, RowsFunction make) {
  iterate(state, make(), pipeline(make(), {}), false);
}

void bench_windowed(benchmark::State& state, bool stream_only) {
  iterate(state, rows_20(), pipeline(rows_20(), 4096), stream_only);
}

void bench_three_replicas(benchmark::State& state, RowsFunction make) {
  const Rows& rows = make();
  const MirroredStrategy strategy({"cpu", "cpu", "cpu"});
  const DistributedDataset distributed = strategy.distribute_dataset(pipeline(rows, {}));
  DistributedIterator iterator = distributed.iterate();
  for (auto _ : state) {
    std::optional<PerReplica> step = iterator.next();
    if (!step) {
      iterator = distributed.iterate();
      step = iterator.next();
    }
    benchmark::DoNotOptimize(step);
  }
  count(state, rows, state.iterations() * rows.batch);
}

void bench_elements(benchmark::State& state, bool stream_only) {
  const Dataset dataset = Dataset::range(1'000'000).skip(10).repeat();
  DatasetIterator iterator = dataset.iterate({.stream_only = stream_only});
  for (auto _ : state) benchmark::DoNotOptimize(iterator.next());
  state.SetItemsProcessed(state.iterations());
}

/// Steps two iterators over the same pipeline in turn: one that measures as ever, and a bare one that no
/// thread counts for. Counters: ns of a batch with and without, and what measuring adds, as a share; all of
/// medians.
void bench_measuring(benchmark::State& state, RowsFunction make) {
  const Dataset dataset = pipeline(make(), {}).repeat().with_options({.num_threads = 0});
  DatasetIterator measured = dataset.iterate();
  // In another epoch, so that neither finds the rows of the other in the cache.
  const IteratorPtr bare = open_iterator(
      dataset.node(), epoch_context(make_execution_context(dataset.options()), 0, 1, /*stream_only=*/false));
  std::vector<std::int64_t> with, without;
  const auto timed = [](auto& iterator, std::vector<std::int64_t>& times) {
    const std::int64_t began = clock_ns();
    benchmark::DoNotOptimize(iterator.next());
    times.push_back(clock_ns() - began);
  };
  for (auto _ : state) {
    timed(measured, with);
    timed(*bare, without);
  }
  const auto median = [](std::vector<std::int64_t>& times) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return static_cast<double>(*middle);
  };
  const double on = median(with), off = median(without);
  state.counters["measured_ns"] = on;
  state.counters["bare_ns"] = off;
  state.counters["share"] = on / off - 1;
}

void timed_by_the_wall(benchmark::internal::Benchmark* bench) {
  bench->MeasureProcessCPUTime()->UseRealTime();
}

template <class... Arguments>
benchmark::internal::Benchmark* add(const std::string& name, Arguments... arguments) {
  return benchmark::RegisterBenchmark(name.c_str(), arguments...);
}

void add_rows(const std::string& name, RowsFunction make) {
  add("limit/" + name, bench_limit, make)->Args({1, 1})->Args({2, 1})->Args({1, 4})->UseManualTime();
  add("batches/" + name, bench_batches, make)->Apply(timed_by_the_wall);
  add("three_replicas/" + name, bench_three_replicas, make)->Apply(timed_by_the_wall);
}

const bool added = [] {
  add_rows("rows_20", rows_20);
  add_rows("rows_128", rows_128);
  add_rows("images", images);
  add("windowed/plan", bench_windowed, false)->Apply(timed_by_the_wall);
  add("windowed/stream", bench_windowed, true)->Apply(timed_by_the_wall);
  add("measuring/rows_20", bench_measuring, rows_20);
  add("measuring/rows_128", bench_measuring, rows_128);
  add("elements/plan", bench_elements, false)->Apply(timed_by_the_wall);
  add("elements/stream", bench_elements, true)->Apply(timed_by_the_wall);
  return true;
}();

}  // namespace
}  // namespace torch_distinput
