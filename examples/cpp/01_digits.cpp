// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
//
// Trains a digit classifier on rows of a CSV file: 64 pixels from 0 to 16 and the digit, in each line.
//   01_digits digits.csv
#include <charconv>
#include <iostream>
#include <string_view>

#include <torch/torch.h>
#include <torch_distinput/torch_distinput.h>

namespace tdi = torch_distinput;

constexpr int kPixels = 64;
constexpr int kDigits = 10;
constexpr int kEpochs = 8;
constexpr int kBatch = 64;

/// A line as {"image": 64 floats, "label": int64}.
tdi::Element parse(const tdi::Element& line) {
  const std::string_view text = std::get<tdi::Bytes>(line.leaves().front())[0];
  at::Tensor image = torch::empty(kPixels);
  std::int64_t label = -1;
  const char* next = text.data();
  for (int i = 0; i <= kPixels; ++i) {
    double value = 0;
    const auto [end, error] = std::from_chars(next, text.data() + text.size(), value);
    // What a function throws arrives with the op and the row: `map(function): element 17: ...`.
    if (error != std::errc()) throw std::invalid_argument("number " + std::to_string(i) + " is missing");
    if (i < kPixels)
      image.data_ptr<float>()[i] = static_cast<float>(value / 16);
    else
      label = static_cast<std::int64_t>(value);
    next = end + 1;
  }
  return tdi::Element::dict({{"image", image}, {"label", torch::tensor(label)}});
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  torch::manual_seed(0);
  const tdi::Dataset rows = tdi::TextLineDataset(argv[1]).map(parse).cache();
  const std::int64_t count = rows.cardinality();
  const tdi::Dataset train = rows.take(count * 4 / 5).shuffle({.seed = 1}).batch(kBatch);
  const tdi::Dataset test = rows.skip(count * 4 / 5).batch(kBatch);

  torch::nn::Sequential model(torch::nn::Linear(kPixels, 128), torch::nn::ReLU(),
                              torch::nn::Linear(128, kDigits));
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (const tdi::Element& batch : train) {  // each pass is the next epoch, in another order
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(model->forward(batch["image"].tensor()), batch["label"].tensor())
          .backward();
      optimizer.step();
    }
  }

  const torch::NoGradGuard no_grad;
  std::int64_t right = 0;
  std::int64_t seen = 0;
  for (const tdi::Element& batch : test) {
    const at::Tensor label = batch["label"].tensor();
    right += model->forward(batch["image"].tensor()).argmax(1).eq(label).sum().item<std::int64_t>();
    seen += label.size(0);
  }
  std::cout << "rows " << count << ", tested " << seen << ", accuracy "
            << static_cast<double>(right) / static_cast<double>(seen) << '\n';
}
