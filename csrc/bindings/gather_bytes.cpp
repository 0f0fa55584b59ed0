// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/gather_bytes.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace torch_distinput {
namespace {

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

std::vector<at::Tensor> gather_bytes(c10d::ProcessGroup& group, std::string_view mine) {
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& size : gather(group, at::full({}, std::ssize(mine), at::kLong)))
    sizes.push_back(size.item<std::int64_t>());

  const at::Tensor padded = at::zeros({*std::max_element(sizes.begin(), sizes.end())}, at::kByte);
  std::memcpy(padded.mutable_data_ptr(), mine.data(), mine.size());
  std::vector<at::Tensor> all = gather(group, padded);
  for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank] = all[rank].narrow(0, 0, sizes[rank]);
  return all;
}

}  // namespace torch_distinput
