// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
// Costs of the runtime room: shuffling an index, handing an item over, taking and returning a block.
//
//   bench_runtime --benchmark_filter=Permutation
//
// Times are per index, per item or per block ("items_per_second" is the same figure turned round). The
// hand-over cases build items of a given length in ns; compare them with the serial case of that length.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/stage.h"
#include "runtime/arena.h"
#include "runtime/bounded_queue.h"
#include "runtime/buffer_pool.h"
#include "runtime/ordered_producer.h"
#include "runtime/permutation.h"
#include "runtime/worker_thread.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kBatch = 256;

/// Permutes batch after batch of consecutive positions.
template <class P>
void apply_batches(benchmark::State& state, const P& permutation) {
  std::vector<std::int64_t> positions(kBatch);
  std::int64_t begin = 0;
  for (auto _ : state) {
    if (begin + static_cast<std::int64_t>(kBatch) > permutation.size()) begin = 0;
    std::iota(positions.begin(), positions.end(), begin);
    permutation.apply(positions);
    benchmark::DoNotOptimize(positions.data());
    begin += static_cast<std::int64_t>(kBatch);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kBatch));
}

void PermutationApply(benchmark::State& state) { apply_batches(state, Permutation(state.range(0), 42)); }
BENCHMARK(PermutationApply)
    ->Arg(1'000)
    ->Arg(1'000'000)
    ->Arg((1 << 20) + 1)
    ->Arg(1'000'000'000)
    ->Arg(10'000'000'000);

void PermutationSingle(benchmark::State& state) {
  const Permutation permutation(state.range(0), 42);
  std::int64_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(permutation(position));
    if (++position == permutation.size()) position = 0;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(PermutationSingle)->Arg(1'000'000);

void WindowedPermutationApply(benchmark::State& state) {
  apply_batches(state, WindowedPermutation(1'000'000, state.range(0), 42));
}
BENCHMARK(WindowedPermutationApply)->Arg(16)->Arg(1'000)->Arg(100'000);

/// About `nanoseconds` of arithmetic.
std::int64_t work(std::int64_t index, std::int64_t nanoseconds) {
  auto value = static_cast<std::uint64_t>(index);
  for (std::int64_t i = 0; i < nanoseconds; ++i)
    benchmark::DoNotOptimize(value = value * 6364136223846793005U + 1);
  return index;
}

/// Arguments: length of an item, depth, burst.
void hand_over(benchmark::State& state, const std::shared_ptr<Executor>& executor) {
  const std::int64_t length = state.range(0);
  OrderedProducer<std::int64_t> producer([length](std::int64_t index) { return work(index, length); }, 0,
                                         INT64_MAX, executor,
                                         {.depth = state.range(1), .burst = state.range(2)});
  for (auto _ : state) benchmark::DoNotOptimize(producer.next());
  state.SetItemsProcessed(state.iterations());
  state.counters["waits"] =
      benchmark::Counter(static_cast<double>(producer.waits()), benchmark::Counter::kAvgIterations);
}

void HandOverSerial(benchmark::State& state) { hand_over(state, serial_executor()); }
void HandOverArena(benchmark::State& state) { hand_over(state, make_arena(available_cpus())); }
void HandOverTwoPaths(benchmark::State& state) { hand_over(state, make_thread_pool(2, "bench")); }

void hand_over_cases(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"ns", "depth", "burst"})->UseRealTime();
  bench->Args({0, 16, 8})
      ->Args({1'000, 4, 1})
      ->Args({1'000, 16, 8})
      ->Args({1'000, 64, 16})
      ->Args({40'000, 8, 1});
}
BENCHMARK(HandOverSerial)->Apply(hand_over_cases);
BENCHMARK(HandOverArena)->Apply(hand_over_cases);
BENCHMARK(HandOverTwoPaths)->Apply(hand_over_cases);

void QueuePushPop(benchmark::State& state) {
  BoundedQueue<std::int64_t> queue(4);
  for (auto _ : state) {
    queue.push(1);
    benchmark::DoNotOptimize(queue.pop());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(QueuePushPop);

void PoolAcquireRelease(benchmark::State& state) {
  const auto pool = BufferPool::create(page_allocator(), std::size_t{1} << 30);
  for (auto _ : state)
    benchmark::DoNotOptimize(pool->acquire(static_cast<std::size_t>(state.range(0))).data());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(PoolAcquireRelease)->Arg(1'000)->Arg(8'000'000);

/// What measuring costs: a stage, as in each `next` and each item that a thread builds.
void StageMeasured(benchmark::State& state) {
  const WorkScope work(std::make_shared<Counters>());
  for (auto _ : state) {
    StageScope stage(Stage::kBuild);
    benchmark::DoNotOptimize(stage.end());
  }
}
BENCHMARK(StageMeasured);

/// What the pool saves: fresh memory for every batch.
void PageAllocateFree(benchmark::State& state) {
  const auto allocator = page_allocator();
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    void* const data = allocator->allocate(bytes);
    benchmark::DoNotOptimize(data);
    allocator->deallocate(data, bytes);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(PageAllocateFree)->Arg(1'000)->Arg(8'000'000);

}  // namespace
}  // namespace torch_distinput

BENCHMARK_MAIN();
