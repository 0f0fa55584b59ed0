// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <vector>

#include "torch_distinput/element.h"

/// \file
/// Memory that belongs to users. torch moves it: `share_memory_` and pickling to another process give a
/// storage other memory and free what it had, and so does `resize_`. So no address is kept; it is taken when
/// the memory is read.

namespace torch_distinput {

/// Where `tensor`, dense and in host memory, begins now; null for one without items. Throws c10::Error where
/// its storage has become too small for it.
const char* host_data(const at::Tensor& tensor);

/// From now on whoever frees memory of the leaves waits until no `ReadGuard` is on it. That holds for memory
/// of torch's CPU allocator, of this library's batches and of `at::from_blob` (numpy arrays, DLPack); other
/// memory (shared, files, page-locked) is only looked up anew.
///
/// No other thread may move the leaves' storages during this call.
void guard_reads(const Element& value);

/// The memory of a dense tensor, held in its place while it is read: a thread that moves the storage
/// meanwhile waits with freeing it. REQUIRES: no users' code runs under a guard.
///
/// What cannot be guarded is memory that the storage was given after `guard_reads`, when that is freed again
/// during the read: two moves, of which one is `resize_` (shared memory does not move). Nor can a numpy array
/// that is resized by force (`refcheck=False`), or a file that is cut under its memory map.
class ReadGuard {
 public:
  /// Errors as `host_data`.
  explicit ReadGuard(const at::Tensor& tensor);
  ~ReadGuard();
  ReadGuard(ReadGuard&& other) noexcept;
  ReadGuard(const ReadGuard&) = delete;
  ReadGuard& operator=(const ReadGuard&) = delete;

  const char* data() const noexcept { return data_; }

 private:
  ReadGuard() = default;

  std::atomic<void*>* place_ = nullptr;  ///< where freeing threads look; null: nobody would wait
  const char* data_ = nullptr;
};

/// Guards on all tensors of an element that lie in host memory.
std::vector<ReadGuard> guard(const Element& value);

}  // namespace torch_distinput
