// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// \file
/// Which forked children may still read memory that this process shares with them. A child has copies of all
/// Python objects, batches among them, whose memory must not be written to meanwhile.

/// Marks shared memory that children forked during its life may read.
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
