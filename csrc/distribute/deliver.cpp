// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/deliver.h"

#include <ATen/ops/sub.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace torch_distinput {
namespace {

/// The values of the leaf's own rows, which may share memory with those of other replicas.
Ragged to_device(const Ragged& ragged, c10::Device device) {
  const auto* const bounds = static_cast<const std::int64_t*>(ragged.offsets.const_data_ptr());
  const std::int64_t first = bounds[0];
  const std::int64_t last = bounds[ragged.offsets.size(0) - 1];
  return {ragged.values.narrow(0, first, last - first).to(device), at::sub(ragged.offsets, first)};
}

/// Strings and opaque objects stay on the host.
Element to_device(Element part, c10::Device device) {
  for (Leaf& leaf : part.leaves()) {
    if (auto* dense = std::get_if<at::Tensor>(&leaf)) *dense = dense->to(device);
    if (auto* sparse = std::get_if<Sparse>(&leaf)) sparse->value = sparse->value.to(device);
    if (auto* ragged = std::get_if<Ragged>(&leaf)) *ragged = to_device(*ragged, device);
  }
  return part;
}

std::vector<Element> on_devices(const Distribution& distribution, std::vector<Element>& parts) {
  const auto on_host = [](c10::Device device) { return device.is_cpu(); };
  const auto& devices = distribution.devices;
  const bool placed = distribution.input.place_dataset_on_device && !distribution.pipelines.empty();
  const bool stay = !distribution.input.fetch_to_device && !placed;
  if (stay || std::all_of(devices.begin(), devices.end(), on_host)) {
    return std::move(parts);
  }
  std::vector<Element> moved;
  for (std::size_t replica = 0; replica < parts.size(); ++replica) {
    moved.push_back(on_host(devices[replica]) ? parts[replica] : to_device(parts[replica], devices[replica]));
  }
  return moved;
}

}  // namespace

PerReplica deliver(const Distribution& distribution, BuiltStep& step, std::int64_t epoch, bool is_last) {
  std::vector<Element> values = on_devices(distribution, step.parts);
  StepInfo info = std::move(step.info);
  info.epoch = epoch;
  info.is_last = is_last;
  return {std::move(values), std::move(info)};
}

}  // namespace torch_distinput
