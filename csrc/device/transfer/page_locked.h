// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <c10/core/Device.h>

namespace torch_distinput {

class BufferPool;

/// The process-wide pool of page-locked memory, from which accelerators of `type` copy asynchronously. Its
/// memory is from torch's host allocator for `type`, or ordinary memory if there is none. Keeps up to 1 GiB
/// for reuse. Never destroyed. Safe from any thread.
const std::shared_ptr<BufferPool>& page_locked_pool(c10::DeviceType type);

/// The process-wide pool of page-locked memory for tensors that users copy themselves. Each tensor has a
/// block of its own, which returns to torch's host allocator at once: the allocator knows of users' copies
/// and reuses a block after them. Ordinary memory in a process without an accelerator. Never destroyed. Safe
/// from any thread.
const std::shared_ptr<BufferPool>& pinned_pool();

}  // namespace torch_distinput
