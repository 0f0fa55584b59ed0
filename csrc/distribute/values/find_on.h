// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace torch_distinput {

/// The index of the first of `tensors` that is on `device`; nullopt if none is.
inline std::optional<std::size_t> find_on(const std::vector<at::Tensor>& tensors, c10::Device device) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].device() == device) return i;
  return std::nullopt;
}

}  // namespace torch_distinput
