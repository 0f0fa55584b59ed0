// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <c10/core/Device.h>

namespace torch_distinput {

class BufferPool;

/// The process-wide pool of page-locked memory, from which `device` copies asynchronously; devices of one
/// type at one NUMA node share it. Its memory is from torch's host allocator for the type, or ordinary memory
/// if there is none, and from the device's node where that is known. Keeps up to 1 GiB for reuse. Never
/// destroyed. Safe from any thread.
const std::shared_ptr<BufferPool>& page_locked_pool(c10::Device device);

/// The process-wide pool of page-locked memory for tensors that users copy themselves. Each tensor has a
/// block of its own, which returns to torch's host allocator at once: the allocator knows of users' copies
/// and reuses a block after them. Ordinary memory in a process without an accelerator. Never destroyed. Safe
/// from any thread.
const std::shared_ptr<BufferPool>& pinned_pool();

}  // namespace torch_distinput
