// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
// Files in the page cache: batches of records beside bare reads with their checksums, and beside what
// programs usually do; indexing.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <unistd.h>

#include "io/crc32c.h"
#include "io/index_set.h"
#include "torch_distinput/files.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kFileBytes = std::int64_t{256} << 20;
constexpr std::int64_t kLine = 100;
constexpr std::int64_t kBatch = 256;

struct Sample {
  std::string path;
  std::int64_t record_bytes;
  std::int64_t records;
};

/// Files of about `kFileBytes` bytes: in the folder $TDI_BENCH_FOLDER, where they stay, so that other readers
/// can be measured over the same files, else in one that is removed at the end.
class Samples {
 public:
  static const Samples& get() {
    static const Samples samples;
    return samples;
  }
  ~Samples() {
    if (temporary_) std::filesystem::remove_all(folder_);
  }

  Sample tf_records(std::int64_t bytes) const {
    return {folder_ + "/tf" + std::to_string(bytes), bytes, kFileBytes / bytes};
  }
  Sample lines() const { return {folder_ + "/lines", kLine, kFileBytes / kLine}; }

 private:
  Samples() {
    if (const char* const given = std::getenv("TDI_BENCH_FOLDER")) {
      folder_ = given;
      temporary_ = false;
      if (std::filesystem::exists(lines().path)) return;
    } else {
      folder_ = (std::filesystem::temp_directory_path() / "tdi-bench-XXXXXX").string();
      if (::mkdtemp(folder_.data()) == nullptr) std::abort();
    }
    for (const std::int64_t bytes : {1000, 100'000}) write_tf_records(tf_records(bytes));
    std::ofstream out(lines().path, std::ios::binary);
    for (std::int64_t i = 0; i < lines().records; ++i)
      out << std::string(kLine - 1, static_cast<char>('a' + i % 26)) << '\n';
  }

  static void write_tf_records(const Sample& sample) {
    std::ofstream out(sample.path, std::ios::binary);
    std::string data(static_cast<std::size_t>(sample.record_bytes), 'x');
    const auto put = [&](const auto& value) {
      out.write(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    for (std::int64_t i = 0; i < sample.records; ++i) {
      std::memcpy(data.data(), &i, sizeof(i));
      const std::uint64_t length = data.size();
      put(length);
      put(mask_crc(crc32c(std::span(reinterpret_cast<const char*>(&length), sizeof(length)))));
      out << data;
      put(mask_crc(crc32c(data)));
    }
  }

  std::string folder_;
  bool temporary_ = true;
};

std::int64_t records_in(const Dataset& dataset) {
  std::int64_t records = 0;
  DatasetIterator iterator = dataset.iterate();
  while (const auto batch = iterator.next())
    records += std::get<Bytes>(batch->leaves().front()).shape.front();
  return records;
}

void report(benchmark::State& state, const Sample& sample) {
  state.SetBytesProcessed(state.iterations() * sample.records * sample.record_bytes);
  state.SetItemsProcessed(state.iterations() * sample.records);
}

/// The limit: all records in turn, read in pieces that stay in the cache, with the checksum of each record.
/// range(1) threads, each with its part of the file and no hand-over.
void bare_reads(benchmark::State& state) {
  const Sample sample = Samples::get().tf_records(state.range(0));
  const auto threads = state.range(1);
  const std::int64_t framed = sample.record_bytes + 16;
  const std::int64_t together = std::max<std::int64_t>(1, (std::int64_t{256} << 10) / framed);
  const File file(sample.path);
  const auto work = [&](std::int64_t thread) {
    std::vector<char> piece(static_cast<std::size_t>(together * framed));
    std::uint32_t bad = 0;
    for (std::int64_t first = thread * together; first < sample.records; first += threads * together) {
      const std::int64_t count = std::min(together, sample.records - first);
      file.read(std::span(piece).first(static_cast<std::size_t>(count * framed)),
                static_cast<std::uint64_t>(first * framed));
      for (std::int64_t i = 0; i < count; ++i) {
        const char* const record = piece.data() + i * framed;
        std::uint32_t stored;
        std::memcpy(&stored, record + framed - 4, sizeof(stored));
        bad +=
            mask_crc(crc32c(std::span(record + 12, static_cast<std::size_t>(sample.record_bytes)))) != stored
                ? 1
                : 0;
      }
    }
    if (bad > 0) std::abort();
  };
  for (auto _ : state) {
    std::vector<std::thread> others;
    for (std::int64_t thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
    work(0);
    for (std::thread& other : others) other.join();
  }
  report(state, sample);
}
BENCHMARK(bare_reads)->ArgsProduct({{1000, 100'000}, {1, 2}})->UseRealTime()->Unit(benchmark::kMillisecond);

/// Batches of records; range(1): threads of the loader, 0: all in the consumer's thread, -1: the default.
void tf_record_batches(benchmark::State& state) {
  const Sample sample = Samples::get().tf_records(state.range(0));
  Options options;
  if (state.range(1) >= 0) options.num_threads = state.range(1);
  const Dataset dataset =
      TFRecordDataset(sample.path).batch(sample.record_bytes > 10'000 ? 32 : kBatch).with_options(options);
  records_in(dataset.take(10));
  for (auto _ : state) {
    if (records_in(dataset) != sample.records) std::abort();
  }
  report(state, sample);
}
BENCHMARK(tf_record_batches)
    ->ArgsProduct({{1000, 100'000}, {0, -1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void shuffled_tf_record_batches(benchmark::State& state) {
  const Sample sample = Samples::get().tf_records(state.range(0));
  const Dataset dataset =
      TFRecordDataset(sample.path).shuffle().batch(sample.record_bytes > 10'000 ? 32 : kBatch);
  for (auto _ : state) {
    if (records_in(dataset) != sample.records) std::abort();
  }
  report(state, sample);
}
BENCHMARK(shuffled_tf_record_batches)->Arg(1000)->Arg(100'000)->UseRealTime()->Unit(benchmark::kMillisecond);

void text_line_batches(benchmark::State& state) {
  const Sample sample = Samples::get().lines();
  Options options;
  if (state.range(0) >= 0) options.num_threads = state.range(0);
  const Dataset dataset = TextLineDataset(sample.path).batch(kBatch).with_options(options);
  records_in(dataset.take(10));
  for (auto _ : state) {
    if (records_in(dataset) != sample.records) std::abort();
  }
  report(state, sample);
}
BENCHMARK(text_line_batches)->Arg(0)->Arg(-1)->UseRealTime()->Unit(benchmark::kMillisecond);

/// The rival: lines into strings, as most C++ programs read them.
void getline_into_strings(benchmark::State& state) {
  const Sample sample = Samples::get().lines();
  for (auto _ : state) {
    std::ifstream in(sample.path, std::ios::binary);
    std::vector<std::string> batch(static_cast<std::size_t>(kBatch));
    std::int64_t lines = 0;
    while (std::getline(in, batch[static_cast<std::size_t>(lines % kBatch)])) ++lines;
    if (lines != sample.records) std::abort();
  }
  report(state, sample);
}
BENCHMARK(getline_into_strings)->UseRealTime()->Unit(benchmark::kMillisecond);

/// Building an index, nothing stored; range(0): bytes of a TFRecord, 0: text lines.
void build(benchmark::State& state) {
  const bool text = state.range(0) == 0;
  const Sample sample = text ? Samples::get().lines() : Samples::get().tf_records(state.range(0));
  const RecordFormat format{.kind = text ? RecordKind::kTextLines : RecordKind::kTfRecords};
  for (auto _ : state) {
    const RecordIndex index = build_index(File(sample.path), format, [](std::uint64_t) {});
    if (index.size() != sample.records) std::abort();
  }
  report(state, sample);
}
BENCHMARK(build)
    ->Name("build_index")
    ->Arg(0)
    ->Arg(1000)
    ->Arg(100'000)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace torch_distinput
