// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
//
// Batches of shuffled rows: a bare loop of memcpy, the kernel, and the whole pipeline. Compare rows of equal
// arguments (bytes of a row, rows of a batch) within one run: the machine's load moves all of them.
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <benchmark/benchmark.h>

#include "kernels/rows.h"
#include "runtime/permutation.h"
#include "torch_distinput/dataset.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kTableBytes = std::int64_t{512} << 20;

/// Rows of uint8, in shuffled order a batch at a time.
class Table {
 public:
  explicit Table(const benchmark::State& state)
      : row_bytes_(state.range(0)), batch_(state.range(1)), order_(kTableBytes / row_bytes_) {
    rows_ = at::empty({static_cast<std::int64_t>(order_.size()), row_bytes_}, at::kByte);
    std::memset(rows_.mutable_data_ptr(), 1, rows_.nbytes());
    std::iota(order_.begin(), order_.end(), 0);
    Permutation(static_cast<std::int64_t>(order_.size()), 1).apply(order_);
    buffer_.resize(static_cast<std::size_t>(batch_ * row_bytes_));
  }

  std::span<const std::int64_t> next_positions() {
    if (used_ + static_cast<std::size_t>(batch_) > order_.size()) used_ = 0;
    const std::span positions(order_.data() + used_, static_cast<std::size_t>(batch_));
    used_ += static_cast<std::size_t>(batch_);
    return positions;
  }
  const char* data() const { return static_cast<const char*>(rows_.const_data_ptr()); }
  RowSink sink() { return {buffer_.data(), row_bytes_}; }
  const at::Tensor& rows() const { return rows_; }
  std::int64_t row_bytes() const { return row_bytes_; }

 private:
  std::int64_t row_bytes_;
  std::int64_t batch_;
  std::vector<std::int64_t> order_;
  std::size_t used_ = 0;
  at::Tensor rows_;
  std::vector<char> buffer_;
};

void report_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0) * state.range(1));
}

void bare_loop(benchmark::State& state) {
  Table table(state);
  for (auto _ : state) {
    char* to = table.sink().data;
    for (const std::int64_t position : table.next_positions()) {
      std::memcpy(to, table.data() + position * table.row_bytes(),
                  static_cast<std::size_t>(table.row_bytes()));
      to += table.row_bytes();
    }
    benchmark::ClobberMemory();
  }
  report_bytes(state);
}

void kernel(benchmark::State& state) {
  Table table(state);
  for (auto _ : state) {
    gather_rows(table.data(), table.row_bytes(), table.next_positions(), {}, table.sink());
    benchmark::ClobberMemory();
  }
  report_bytes(state);
}

/// shuffle + batch; `threads` 0: all in the consumer's thread.
void pipeline(benchmark::State& state, std::optional<std::int64_t> threads) {
  const Table table(state);
  Options options;
  options.num_threads = threads;
  const Dataset dataset = Dataset::from_tensor_slices(Element(table.rows()))
                              .shuffle({.seed = 1})
                              .repeat()
                              .batch(state.range(1))
                              .with_options(options);
  DatasetIterator iterator = dataset.iterate();
  iterator.next();
  for (auto _ : state) benchmark::DoNotOptimize(iterator.next());
  report_bytes(state);
  state.counters["allocations"] = static_cast<double>(iterator.stats().allocations);
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({8, 256})
      ->Args({80, 256})
      ->Args({512, 256})
      ->Args({4096, 128})
      ->Args({150528, 64})
      ->UseRealTime();
}

BENCHMARK(bare_loop)->Apply(shapes);
BENCHMARK(kernel)->Apply(shapes);
BENCHMARK_CAPTURE(pipeline, serial, 0)->Apply(shapes);
BENCHMARK_CAPTURE(pipeline, all_threads, std::nullopt)->Apply(shapes);

}  // namespace
}  // namespace torch_distinput
