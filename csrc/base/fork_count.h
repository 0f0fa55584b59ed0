// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch_distinput {

/// How many forks lie between this process and the one that loaded the library. Cheaper than the
/// process id, which costs a system call.
int fork_count() noexcept;

}  // namespace torch_distinput
