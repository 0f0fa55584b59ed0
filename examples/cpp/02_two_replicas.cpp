// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
//
// Two replicas train one model: each step's loss is the mean over the global batch, although the last batch
// is short and gives the replicas different numbers of rows. With {"cuda:0", "cuda:1"} they would be GPUs.
#include <iostream>

#include <torch/torch.h>
#include <torch_distinput/torch_distinput.h>

namespace tdi = torch_distinput;

constexpr int kRows = 101;
constexpr int kBatch = 16;
constexpr int kEpochs = 20;

int main() {
  torch::manual_seed(0);
  const at::Tensor x = torch::randn({kRows, 3});
  const at::Tensor wanted = torch::tensor({1.0F, -2.0F, 0.5F});
  const auto rows = tdi::Element::dict({{"x", x}, {"y", x.matmul(wanted)}});

  const tdi::MirroredStrategy strategy({"cpu", "cpu"});
  const tdi::DistributedDataset batches =
      strategy.distribute_dataset(tdi::Dataset::from_tensor_slices(rows).shuffle({.seed = 7}).batch(kBatch));

  torch::nn::Linear model(torch::nn::LinearOptions(3, 1).bias(false));
  torch::optim::SGD optimizer(model->parameters(), 0.2);
  double last = 0;
  std::int64_t seen = 0;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (const tdi::PerReplica& batch : batches) {
      const auto losses = strategy.run(
          [&](const tdi::Element& part) {
            const at::Tensor guess = model->forward(part["x"].tensor()).squeeze(1);
            return tdi::distributed_mean((guess - part["y"].tensor()).square().sum(), batch.info());
          },
          batch);
      const at::Tensor loss = strategy.reduce(tdi::ReduceOp::kMean, losses);
      optimizer.zero_grad();
      loss.backward();  // the replicas share the parameters, so one backward sums all their gradients
      optimizer.step();
      last = loss.item<double>();
      seen += batch.info().global_valid;
    }
  }
  const double error = (model->weight.squeeze(0) - wanted).abs().max().item<double>();
  std::cout << "rows seen " << seen << " of " << kEpochs * kRows << ", last loss " << last << ", error "
            << error << '\n';
  return error < 1e-2 ? 0 : 1;
}
