// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
//
// A program that uses torch::data changes one name: make_data_loader is this library's. Its loader then also
// resumes, and shares the rows over processes.
#include <iostream>
#include <set>

#include <torch/torch.h>
#include <torch_distinput/torch_data.h>
#include <torch_distinput/torch_distinput.h>

namespace tdi = torch_distinput;
namespace data = torch::data;

constexpr int kRows = 10;
constexpr int kBatch = 4;

/// Row k: the scalars k and 10 k.
class Rows : public data::datasets::Dataset<Rows> {
 public:
  data::Example<> get(std::size_t index) override {
    const auto k = static_cast<std::int64_t>(index);
    return {torch::tensor(k), torch::tensor(10 * k)};
  }
  std::optional<std::size_t> size() const override { return kRows; }
};

/// The scalars 0 to 9, once.
class Stream : public data::datasets::StreamDataset<Stream> {
 public:
  std::vector<data::Example<>> get_batch(std::size_t size) override {
    std::vector<data::Example<>> batch;
    for (; batch.size() < size && next_ < kRows; ++next_)
      batch.emplace_back(torch::tensor(next_), torch::tensor(0));
    return batch;
  }
  std::optional<std::size_t> size() const override { return std::nullopt; }

 private:
  std::int64_t next_ = 0;
};

int main() {
  const auto options = data::DataLoaderOptions().batch_size(kBatch).workers(2);
  auto loader = tdi::make_data_loader<data::samplers::RandomSampler>(Rows().map(data::transforms::Stack<>()),
                                                                     options, {.seed = 7});
  std::multiset<std::int64_t> seen;
  for (const data::Example<>& batch : *loader) {
    TORCH_CHECK(torch::equal(batch.target, 10 * batch.data));
    for (std::int64_t i = 0; i < batch.data.size(0); ++i) seen.insert(batch.data[i].item<std::int64_t>());
  }
  TORCH_CHECK(seen.size() == kRows && std::set(seen.begin(), seen.end()).size() == kRows);

  // Without a transform that stacks, a batch is a vector of examples, as torch's.
  auto in_order = tdi::make_data_loader<data::samplers::SequentialSampler>(Rows(), kBatch);
  std::int64_t next = 0;
  auto batch = in_order->begin();
  for (const data::Example<>& example : *batch) TORCH_CHECK(example.data.item<std::int64_t>() == next++);
  const tdi::State state = in_order->save();
  auto resumed = tdi::make_data_loader<data::samplers::SequentialSampler>(Rows(), kBatch);
  resumed->load(state);
  for (const auto& examples : *resumed)
    for (const data::Example<>& example : examples) TORCH_CHECK(example.data.item<std::int64_t>() == next++);
  TORCH_CHECK(next == kRows);

  std::int64_t streamed = 0;
  for (const tdi::Element& element : tdi::from_torch_data(Stream()).batch(kBatch))
    streamed += element["data"].tensor().size(0);
  TORCH_CHECK(streamed == kRows);
  std::cout << "rows " << seen.size() << ", resumed at " << kBatch << ", streamed " << streamed << '\n';
}
