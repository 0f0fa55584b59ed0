// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <c10/core/Allocator.h>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// Page-locked host memory that torch's host allocator did not make and that is reused: it may be written to
/// only after devices have read it. A copy with `non_blocking=True` returns before that, and only
/// torch's allocator learns on which streams such copies run, by the context of the tensor's storage. So a
/// tiny block of that allocator stands for the memory: it is the context of the storages, it is freed with
/// the last of them, and the allocator hands it out again once the copies are done.
///
/// Safe from any thread. In a forked child, where no copy runs, nothing happens when storages are released.
class TDI_API HostReads {
 public:
  /// Memory that `owner` holds. `owner` is released when this object and all storages at it are gone. If a
  /// device still reads the memory, `owner` is released later: by the next release, constructor or `collect`,
  /// on whichever thread calls it.
  /// Throws what torch's allocator throws; std::runtime_error where torch has none for the accelerator of
  /// this process.
  explicit HostReads(std::shared_ptr<void> owner);
  ~HostReads();
  HostReads(const HostReads&) = delete;
  HostReads& operator=(const HostReads&) = delete;

  /// For a storage at `data`, an address in the memory.
  c10::DataPtr at(void* data) const;

  /// Releases the owners of memory that has been read. Does not wait.
  static void collect() noexcept;

 private:
  void* block_;  // of torch's allocator
};

}  // namespace torch_distinput
