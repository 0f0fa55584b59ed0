// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch_distinput {

/// The number of forks between the process that loaded the library and this one: an object that was made at
/// another count belongs to a parent process. Cheaper than the process id, which costs a system call. Safe
/// from any thread.
int fork_count() noexcept;

}  // namespace torch_distinput
