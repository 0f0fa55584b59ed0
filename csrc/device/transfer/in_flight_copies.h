// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include <ATen/core/Tensor.h>

#include "device/transfer/copy_engine.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {

/// Host memory from which a device copies.
struct PinnedBuffers {
  std::vector<Block> blocks;        ///< of the engine's host pool
  std::vector<at::Tensor> tensors;  ///< of the user, that the device reads directly
  std::int64_t bytes = 0;           ///< in all copies
};

/// Holds host memory until the device has read it. There is one for each device; it outlives the stagers
/// whose copies it holds, so that their destructors need not wait. Safe from any thread.
class InFlightCopies {
 public:
  explicit InFlightCopies(std::shared_ptr<CopyEngine> engine) : engine_(std::move(engine)) {}

  /// Holds `buffers` until `arrived`, an event of the copy stream after the copies that read them. Adds
  /// `buffers.bytes` to `on_the_way` until then. `collect` releases buffers in the order of these calls.
  void add(Event arrived, PinnedBuffers buffers, std::shared_ptr<std::atomic<std::int64_t>> on_the_way);
  /// Releases the buffers that have been read. Does not wait.
  void collect();

 private:
  struct Entry {
    Event arrived;
    PinnedBuffers buffers;
    std::shared_ptr<std::atomic<std::int64_t>> on_the_way;
  };

  std::shared_ptr<CopyEngine> engine_;
  std::mutex mutex_;
  std::deque<Entry> entries_;
};

}  // namespace torch_distinput
