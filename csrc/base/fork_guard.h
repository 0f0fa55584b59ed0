// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch_distinput/api.h"

namespace torch_distinput {

/// Tells whether this process is a forked child of the one that made the guard. The threads and locks that go
/// with what the guard is a member of are then the parent's. A copy counts as made where the original was.
/// Makes no system call. Safe from any thread.
class TDI_API ForkGuard {
 public:
  ForkGuard() noexcept;
  bool inherited() const noexcept;

 private:
  int forks_;  // from the process that loaded the library to the one that made the guard
};

}  // namespace torch_distinput
