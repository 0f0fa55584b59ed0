// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// \file
/// Which forked children may still look at memory of this process that they share. A child has copies of all
/// Python objects, batches among them, whose memory must then not be written to.

/// Shared memory in which children may look while it lives.
class TDI_API VisibleToForks {
 public:
  VisibleToForks();
  ~VisibleToForks();
  VisibleToForks(const VisibleToForks&) = delete;
  VisibleToForks& operator=(const VisibleToForks&) = delete;

  /// The number of forks of this process before this object was made.
  std::uint64_t first_fork() const noexcept { return first_fork_; }

 private:
  std::uint64_t first_fork_;
};

/// Whether a child of the fork numbered `first_fork`, or of a later one, still runs the program that it was
/// forked with. A child that closes all its descriptors counts as gone.
TDI_API bool seen_by_forks(std::uint64_t first_fork);

}  // namespace torch_distinput
