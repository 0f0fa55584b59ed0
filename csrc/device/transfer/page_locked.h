// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <memory>

namespace torch_distinput {

class BufferPool;

/// The process-wide pool of memory that accelerators of `type` copy from by themselves, from torch's own host
/// allocator; ordinary memory for a type that has none. Keeps up to 1 GiB. Never destroyed.
const std::shared_ptr<BufferPool>& page_locked_pool(c10::DeviceType type);

/// Page-locked memory for tensors that users copy themselves, each in a block of its own, which goes back to
/// torch's host allocator at once: that one knows what is being copied from it and waits. Ordinary memory in
/// a process without an accelerator. Never destroyed.
const std::shared_ptr<BufferPool>& pinned_pool();

}  // namespace torch_distinput
