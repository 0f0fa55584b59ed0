// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace torch_distinput {

/// As `std::memcpy`, for a result that would leave the caches before it is read: on x86-64 it is written past
/// them, so that the lines of `to` are not loaded first. Other threads and processes see it as after
/// `memcpy`.
void copy_past_caches(char* to, const char* from, std::size_t bytes) noexcept;

}  // namespace torch_distinput
