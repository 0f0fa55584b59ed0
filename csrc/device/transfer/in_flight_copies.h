// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "device/transfer/copy_engine.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {

/// Host memory that a device is reading.
struct PinnedBuffers {
  std::vector<Block> blocks;
  std::vector<at::Tensor> tensors;
  std::int64_t bytes = 0;
};

/// Keeps host memory until the device has read it. One for a device, which outlives those whose copies they
/// are: nobody has to wait for the device in order to leave. Any thread may call any member.
class InFlightCopies {
 public:
  explicit InFlightCopies(std::shared_ptr<CopyEngine> engine) : engine_(std::move(engine)) {}

  /// `arrived`: after the copies that read `pinned buffers`, in the order of the copy stream. `on_the_way`
  /// counts the bytes until then.
  void add(Event arrived, PinnedBuffers buffers, std::shared_ptr<std::atomic<std::int64_t>> on_the_way);
  /// Lets go of what has been read.
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
