// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "kernels/images.h"

namespace torch_distinput {

/// Why `device` does not unpack images of so many channels; empty: it does. CUDA's take up to 16 where the
/// CUDA library is there and runs on the device, another accelerator's any where its backend has registered a
/// kernel for the operator `torch_distinput::unpack_images`. Loads CUDA's driver, but sets up no device.
std::string unpack_obstacle(c10::Device device, std::int64_t channels);

/// Queues on the calling thread's current stream: `to` = what `unpack_images` of kernels/images.h makes of
/// `from`, with the same bits in float32. Both on one device, contiguous. REQUIRES: no `unpack_obstacle`.
void unpack_on_device(const at::Tensor& from, ChannelDim channels, const ImageScaling& scaling,
                      at::Tensor& to);

}  // namespace torch_distinput
