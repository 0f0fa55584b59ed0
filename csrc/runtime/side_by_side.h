// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace torch_distinput {

/// Calls `work` for consecutive pieces of [0, `count`), each of at least `least` items (> 0) unless there are
/// fewer. In a task of an arena, its idle threads do a part of them, and none of the arena's other tasks is
/// begun meanwhile; elsewhere the calling thread does them all. Returns when all are done. REQUIRES: `work`
/// does not throw, block or run users' code. Safe from any thread.
void side_by_side(std::int64_t count, std::int64_t least,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& work);

}  // namespace torch_distinput
