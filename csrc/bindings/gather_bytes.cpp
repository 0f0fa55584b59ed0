// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/gather_bytes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 48;
/// Bytes of each rank in one collective.
constexpr std::int64_t kChunk = std::int64_t{64} << 20;

/// The device on which the group's collectives take tensors: the CPU where they can.
at::Device device_of(const c10d::ProcessGroup& group) {
  const std::vector<at::Device> devices = group.getDeviceTypes();
  if (devices.empty() || std::find(devices.begin(), devices.end(), at::kCPU) != devices.end())
    return at::kCPU;
  return c10::impl::VirtualGuardImpl(devices.front().type()).getDevice();
}

/// The tensor `mine` of every rank; all have the same shape.
std::vector<at::Tensor> gather(c10d::ProcessGroup& group, const at::Tensor& mine) {
  std::vector<at::Tensor> inputs = {mine.to(device_of(group))};
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int rank = 0; rank < group.getSize(); ++rank)
    outputs.front().push_back(at::empty_like(inputs.front()));
  group.allgather(outputs, inputs)->wait();
  for (at::Tensor& output : outputs.front()) output = output.cpu();
  return std::move(outputs.front());
}

}  // namespace

std::vector<std::string> gather_bytes(c10d::ProcessGroup& group, std::string_view mine) {
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& size : gather(group, at::full({}, std::ssize(mine), at::kLong))) {
    sizes.push_back(size.item<std::int64_t>());
    if (sizes.back() >= 0 && sizes.back() <= kMaxBytes) continue;
    throw DistributedDatasetError("Strategy: the bytes of rank " + std::to_string(sizes.size() - 1) +
                                  " must be at most 2**48, but it announces " + std::to_string(sizes.back()) +
                                  ".");
  }
  const std::int64_t longest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::string> all(sizes.size());
  for (std::int64_t at = 0; at < longest; at += kChunk) {
    const at::Tensor chunk = at::zeros({std::min(longest - at, kChunk)}, at::kByte);
    const auto left =
        static_cast<std::size_t>(std::clamp<std::int64_t>(std::ssize(mine) - at, 0, chunk.numel()));
    if (left > 0) std::memcpy(chunk.mutable_data_ptr(), mine.data() + at, left);
    const std::vector<at::Tensor> arrived = gather(group, chunk);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto there = std::clamp<std::int64_t>(sizes[rank] - at, 0, chunk.numel());
      all[rank].append(static_cast<const char*>(arrived[rank].const_data_ptr()),
                       static_cast<std::size_t>(there));
    }
  }
  return all;
}

}  // namespace torch_distinput
