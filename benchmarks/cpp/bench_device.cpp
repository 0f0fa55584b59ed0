// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
//
// What the way to a device costs the host: a replica on the host with and without the way, small leaves put
// together beside leaf by leaf, bytes that become numbers beside torch's own ops. One thread each.
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <benchmark/benchmark.h>

#include "device/transfer/copy_block.h"
#include "kernels/images.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {
namespace {

/// 4096 rows of 128 x float32 and a label, batches of 256, in the consumer's thread.
void distribute(benchmark::State& state, bool fetch_to_device) {
  const Dataset rows = Dataset::from_tensor_slices(Element::tuple({at::zeros({4096, 128}), at::arange(4096)}))
                           .batch(256)
                           .repeat();
  InputOptions options;
  options.fetch_to_device = fetch_to_device;
  options.per_replica_buffer_size = 0;
  auto iterator = OneDeviceStrategy("cpu").distribute_dataset(rows, options).iterate();
  for (auto _ : state) benchmark::DoNotOptimize(iterator.get_next());
}
void BM_HostWithTheWay(benchmark::State& state) { distribute(state, true); }
void BM_HostWithoutTheWay(benchmark::State& state) { distribute(state, false); }
BENCHMARK(BM_HostWithTheWay);
BENCHMARK(BM_HostWithoutTheWay);

/// 64 leaves of 4 kB.
Element many_fields() {
  std::vector<Element> fields;
  for (int i = 0; i < 64; ++i) fields.emplace_back(at::full({16, 64}, i, at::kFloat));
  return Element::tuple(std::move(fields));
}

void BM_PutTogether(benchmark::State& state) {
  const Element element = many_fields();
  for (auto _ : state) {
    const HostTensors tensors = host_tensors_of(element);
    for (const CopyBlock& copy_block : pack(tensors)) {
      const Block block = host_pool()->acquire(copy_block.bytes);
      put_together(copy_block, tensors, static_cast<char*>(block.data()));
      benchmark::ClobberMemory();
    }
  }
}
BENCHMARK(BM_PutTogether);

void BM_CopyLeafByLeaf(benchmark::State& state) {
  at::set_num_threads(1);
  const Element element = many_fields();
  const Element target = many_fields();
  for (auto _ : state) {
    for (std::size_t i = 0; i < 64; ++i) {
      at::Tensor to = target.tensor(i);
      to.copy_(element.tensor(i));
    }
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_CopyLeafByLeaf);

at::Tensor images() {
  return at::arange(64 * 224 * 224 * 3, at::kInt).remainder(251).to(at::kByte).view({64, 224, 224, 3});
}

void unpack(benchmark::State& state, ImageLayout layout) {
  const at::Tensor bytes = images();
  const ImageScaling scaling{{0.017F, 0.018F, 0.019F}, {-2.1F, -2.0F, -1.8F}, at::kFloat, layout};
  for (auto _ : state)
    benchmark::DoNotOptimize(unpack_images(bytes, ChannelDim::kLast, scaling, {}, *host_pool()));
}
void BM_UnpackToNhwc(benchmark::State& state) { unpack(state, ImageLayout::kNhwc); }
void BM_UnpackToNchw(benchmark::State& state) { unpack(state, ImageLayout::kNchw); }
BENCHMARK(BM_UnpackToNhwc)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_UnpackToNchw)->Unit(benchmark::kMillisecond);

/// The same with torch: `result` is made beforehand, so that its pages are warm as the pool's are.
void torch_ops(benchmark::State& state, bool channels_first) {
  at::set_num_threads(1);
  const at::Tensor bytes = images();
  const at::Tensor mean = at::tensor({123.7F, 116.3F, 103.5F});
  const at::Tensor std = at::tensor({58.4F, 57.1F, 57.4F});
  at::Tensor numbers = at::empty(bytes.sizes(), at::kFloat);
  at::Tensor planes = at::empty({64, 3, 224, 224}, at::kFloat);
  for (auto _ : state) {
    numbers.copy_(bytes);
    numbers.sub_(mean).div_(std);
    if (channels_first) planes.copy_(numbers.permute({0, 3, 1, 2}));
    benchmark::ClobberMemory();
  }
}
void BM_TorchToNhwc(benchmark::State& state) { torch_ops(state, false); }
void BM_TorchToNchw(benchmark::State& state) { torch_ops(state, true); }
BENCHMARK(BM_TorchToNhwc)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_TorchToNchw)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace torch_distinput
