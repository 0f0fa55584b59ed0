// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
//
// This library beside torch::data on the same data, in one program that alternates between them:
//
//   batches      shuffled batches of 256 examples: 784 floats and an int64 label
//   row maps     the same, with a function that normalises each row
//   batch maps   the same, with a function that normalises each batch
//   start        from the description to the first batch
//   resume       from a position in the middle of the epoch to the next batch
//
// Prints {"<case>": {"<series>": [microseconds of each round]}} as JSON. Argument: the number of rounds.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>
#include <torch_distinput/torch_distinput.h>

namespace tdi = torch_distinput;
namespace data = torch::data;

namespace {

constexpr std::int64_t kRows = 20'000;
constexpr std::int64_t kColumns = 784;
constexpr std::int64_t kBatch = 256;
constexpr std::int64_t kBatches = (kRows + kBatch - 1) / kBatch;
constexpr std::int64_t kMiddle = kBatches / 2;

torch::Tensor normalised(const torch::Tensor& pixels) { return pixels.sub(0.5).div_(0.25); }

struct Table {
  torch::Tensor pixels = torch::rand({kRows, kColumns});
  torch::Tensor labels = torch::arange(kRows) % 10;
};

/// As torch's own MNIST: one example a call, on the rows' memory.
class Rows : public data::datasets::Dataset<Rows> {
 public:
  explicit Rows(const Table& table) : table_(table) {}
  data::Example<> get(std::size_t index) override {
    const auto row = static_cast<std::int64_t>(index);
    return {table_.pixels[row], table_.labels[row]};
  }
  std::optional<std::size_t> size() const override { return kRows; }

 private:
  Table table_;
};

/// The fastest form of a dataset for torch's loader, which few people write: a batch is one index_select.
class Batches : public data::datasets::BatchDataset<Batches, data::Example<>> {
 public:
  explicit Batches(const Table& table) : table_(table) {}
  data::Example<> get_batch(c10::ArrayRef<std::size_t> indices) override {
    const torch::Tensor rows = torch::empty({static_cast<std::int64_t>(indices.size())}, torch::kLong);
    std::copy(indices.begin(), indices.end(), rows.mutable_data_ptr<std::int64_t>());
    return {table_.pixels.index_select(0, rows), table_.labels.index_select(0, rows)};
  }
  std::optional<std::size_t> size() const override { return kRows; }

 private:
  Table table_;
};

data::Example<> normalised_example(data::Example<> example) {
  return {normalised(example.data), std::move(example.target)};
}

/// torch's `map` takes only datasets whose batches are vectors.
class NormalisedBatches : public data::datasets::BatchDataset<NormalisedBatches, data::Example<>> {
 public:
  explicit NormalisedBatches(const Table& table) : batches_(table) {}
  data::Example<> get_batch(c10::ArrayRef<std::size_t> indices) override {
    return normalised_example(batches_.get_batch(indices));
  }
  std::optional<std::size_t> size() const override { return kRows; }

 private:
  Batches batches_;
};

using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration time) { return 1e6 * Seconds(time).count(); }

template <class Batch>
std::int64_t count_of(const Batch& batch) {
  if constexpr (requires { batch.target; })
    return batch.target.size(0);
  else
    return batch["target"].tensor().size(0);
}

/// Microseconds a batch over a whole epoch of `loader`, without its first batch.
template <class Loader>
double epoch_time(Loader& loader) {
  auto batch = loader.begin();
  std::int64_t rows = count_of(*batch);
  const auto start = Clock::now();
  for (++batch; batch != loader.end(); ++batch) rows += count_of(*batch);
  const double time = microseconds(Clock::now() - start) / static_cast<double>(kBatches - 1);
  TORCH_CHECK(rows == kRows, "an epoch of ", rows, " rows");
  return time;
}

template <class Make>
double start_time(const Make& make) {
  const auto start = Clock::now();
  auto loader = make();
  const std::int64_t rows = count_of(*loader->begin());
  const double time = microseconds(Clock::now() - start);
  TORCH_CHECK(rows == kBatch);
  return time;
}

data::DataLoaderOptions torch_options(std::size_t workers) {
  return data::DataLoaderOptions().batch_size(kBatch).workers(workers);
}

template <class Source>
auto torch_loader(Source source, std::size_t workers) {
  return data::make_data_loader<data::samplers::RandomSampler>(std::move(source), torch_options(workers));
}

/// torch's loader has no position: it reads the first half of the epoch again.
template <class Source>
double torch_resume_time(const Source& source, std::size_t workers) {
  const auto start = Clock::now();
  auto loader = torch_loader(source, workers);
  auto batch = loader->begin();
  for (std::int64_t read = 0; read < kMiddle; ++read) ++batch;
  TORCH_CHECK(count_of(*batch) == kBatch);
  return microseconds(Clock::now() - start);
}

double own_resume_time(const tdi::Dataset& dataset, const tdi::State& state) {
  const auto start = Clock::now();
  tdi::DatasetIterator iterator = dataset.iterate();
  iterator.load(state);
  TORCH_CHECK(count_of(*iterator.next()) == kBatch);
  return microseconds(Clock::now() - start);
}

tdi::Dataset rows_of(const Table& table) {
  return tdi::Dataset::from_tensor_slices(
             tdi::Element::dict({{"data", table.pixels}, {"target", table.labels}}))
      .shuffle({.seed = 7});
}

tdi::Element normalised_element(const tdi::Element& element) {
  return tdi::Element::dict(
      {{"data", normalised(element["data"].tensor())}, {"target", element["target"].tensor()}});
}

struct Series {
  std::string name;
  std::function<double()> measure;
  std::vector<double> samples = {};
};

struct Case {
  std::string name;
  std::vector<Series> series;
};

template <class Source>
std::function<double()> torch_epochs(const Source& source, std::size_t workers) {
  return [source, workers] { return epoch_time(*torch_loader(source, workers)); };
}

std::function<double()> own_epochs(const tdi::Dataset& dataset) {
  return [dataset] { return epoch_time(dataset); };
}

std::vector<Case> cases(const Table& table) {
  using Example = data::Example<>;
  const auto stack = data::transforms::Stack<>();
  const auto on_rows = data::transforms::Lambda<Example>(normalised_example);
  const auto stacked = Rows(table).map(stack);
  const auto mapped_rows = Rows(table).map(on_rows).map(stack);
  const auto mapped_batches = NormalisedBatches(table);
  const tdi::Dataset batches = rows_of(table).batch(kBatch);
  const tdi::Dataset row_maps = rows_of(table).map(normalised_element).batch(kBatch);
  const tdi::Dataset batch_maps = batches.map(normalised_element);
  tdi::DatasetIterator half = batches.iterate();
  for (std::int64_t read = 0; read < kMiddle; ++read) half.next();
  const tdi::State state = half.save();
  return {
      {"batches",
       {{"torch_distinput", own_epochs(batches)},
        {"torch::data", torch_epochs(stacked, 0)},
        {"torch::data, 2 workers", torch_epochs(stacked, 2)},
        {"torch::data batched", torch_epochs(Batches(table), 0)},
        {"torch::data batched, 2 workers", torch_epochs(Batches(table), 2)}}},
      {"row maps",
       {{"torch_distinput", own_epochs(row_maps)},
        {"torch::data", torch_epochs(mapped_rows, 0)},
        {"torch::data, 2 workers", torch_epochs(mapped_rows, 2)}}},
      {"batch maps",
       {{"torch_distinput", own_epochs(batch_maps)},
        {"torch::data batched", torch_epochs(mapped_batches, 0)},
        {"torch::data batched, 2 workers", torch_epochs(mapped_batches, 2)}}},
      {"start",
       {{"torch_distinput",
         [&table] {
           return start_time([&] { return std::make_unique<tdi::Dataset>(rows_of(table).batch(kBatch)); });
         }},
        {"torch::data", [stacked] { return start_time([&] { return torch_loader(stacked, 0); }); }},
        {"torch::data, 2 workers",
         [stacked] { return start_time([&] { return torch_loader(stacked, 2); }); }}}},
      {"resume",
       {{"torch_distinput", [batches, state] { return own_resume_time(batches, state); }},
        {"torch::data", [stacked] { return torch_resume_time(stacked, 0); }},
        {"torch::data, 2 workers", [stacked] { return torch_resume_time(stacked, 2); }}}},
  };
}

/// A round measures each series of a case, and the first one, ours, at its start and at its end.
void measure(Case& one, int rounds) {
  for (Series& series : one.series) series.measure();  // warm
  for (int round = 0; round < rounds; ++round) {
    for (Series& series : one.series) series.samples.push_back(series.measure());
    one.series.front().samples.push_back(one.series.front().measure());
  }
}

void print(const Case& one) {
  std::cout << '"' << one.name << "\": {";
  for (const Series& series : one.series) {
    std::cout << (&series == &one.series.front() ? "" : ", ") << '"' << series.name << "\": [";
    for (const double& sample : series.samples)
      std::cout << (&sample == &series.samples.front() ? "" : ", ") << sample;
    std::cout << ']';
  }
  std::cout << '}';
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 5;
  at::set_num_threads(1);  // both sides have threads of their own, whose operators must not start others
  const Table table;
  std::vector<Case> all = cases(table);
  std::cout << "{";
  for (Case& one : all) {
    measure(one, rounds);
    print(one);
    std::cout << (&one == &all.back() ? "}" : ",") << std::endl;
  }
}
