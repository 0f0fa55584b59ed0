// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/polling.h"
#include "base/shared_segment.h"

namespace torch_distinput {

/// Memory of `bytes` that the ranks of this job on this host have in common: the first rank that asks for
/// `what` makes it, all zero, and the others map it, as long as a rank that made it lives. A rank that finds
/// none, and every process that belongs to no job, makes its own, which only the processes that it forks
/// share. Throws std::system_error where the system has none. Waits as `share_on_host`. Safe from any thread.
std::unique_ptr<SharedSegment> job_memory(const std::string& what, std::uint64_t bytes, const Poll& poll);

}  // namespace torch_distinput
