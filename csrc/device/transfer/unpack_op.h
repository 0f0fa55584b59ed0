// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "kernels/images.h"

namespace torch_distinput {

/// Why `device` cannot unpack images with `channels` channels; empty if it can. A CUDA device can up to 16
/// channels if the CUDA library runs on it; a device of another accelerator can if its backend has registered
/// a kernel for the operator `torch_distinput::unpack_images`. Loads CUDA's driver, but sets up no device.
/// Safe from any thread.
std::string unpack_obstacle(c10::Device device, std::int64_t channels);

/// Queues on the calling thread's current stream: `to` = the result of `unpack_images` (kernels/images.h) for
/// `from`, with the same bits in float32. REQUIRES: both are contiguous and on one device, `to` has the shape
/// and dtype of the result, and `unpack_obstacle` is empty. Throws c10::Error if the kernel cannot be queued.
void unpack_on_device(const at::Tensor& from, ChannelDim channels, const ImageScaling& scaling,
                      at::Tensor& to);

}  // namespace torch_distinput
