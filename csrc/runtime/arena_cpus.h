// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// Keeps the threads of all arenas on those of `cpus` that this process may use, each from the next time that
/// it joins an arena. Where there are none of them, and with an empty list, the threads run on all CPUs of
/// the process. Safe from any thread.
void keep_arenas_on(const std::vector<int>& cpus);

/// Whether `keep_arenas_on` was called. Safe from any thread.
bool arenas_are_kept() noexcept;

/// Moves the calling thread, one of an arena, to where `keep_arenas_on` wants it.
void place_arena_thread() noexcept;

}  // namespace torch_distinput
