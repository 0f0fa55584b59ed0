// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace torch_distinput {

/// Calls `read` for each number below `count`, in the caller and in up to `threads` other threads, which end
/// before it returns. Throws what `read` throws in the caller, after which no number is begun. What it throws
/// in another thread is dropped, and ends that thread's part: the caller must see for which numbers `read`
/// did nothing.
void read_at_once(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& read);

}  // namespace torch_distinput
