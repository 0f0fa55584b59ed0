// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "kernels/images.h"

namespace torch_distinput {

/// Whether devices of `type` unpack images of so many channels: CUDA's take up to 16 where the CUDA library
/// is there and finds a device, another accelerator's any where its backend has registered a kernel for the
/// operator `torch_distinput::unpack_images`.
bool unpacks_images(c10::DeviceType type, std::int64_t channels);

/// Queues on the calling thread's current stream: `to` = what `unpack_images` of kernels/images.h makes of
/// `from`, with the same bits in float32. Both on one device, contiguous. REQUIRES: `unpacks_images`.
void unpack_on_device(const at::Tensor& from, ChannelDim channels, const ImageScaling& scaling,
                      at::Tensor& to);

}  // namespace torch_distinput
