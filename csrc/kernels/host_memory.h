// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <vector>

#include <ATen/core/Tensor.h>

#include "torch_distinput/element.h"

/// \file
/// Reading memory that belongs to users. torch moves it: `share_memory_`, pickling to another process and
/// `resize_` give a storage other memory and free the old one. So no address is kept; it is taken at each
/// read.

namespace torch_distinput {

/// Returns the address of the first item of `tensor`, which is dense and in host memory; null if it has no
/// items. The address holds until the storage is moved. Throws c10::Error if the storage has become too small
/// for the tensor.
const char* host_data(const at::Tensor& tensor);

/// Makes every thread that frees memory of the leaves wait until no `ReadGuard` holds it. This covers memory
/// of torch's CPU allocator, of this library's batches and of `at::from_blob` (numpy arrays, DLPack). Other
/// memory (shared, mapped from files, page-locked) is not guarded; only its address is taken at each read.
///
/// No other thread may move the leaves' storages during this call.
void guard_reads(const Element& value);

/// Keeps the memory of a dense tensor valid while it is read: a thread that moves the storage meanwhile waits
/// before it frees the memory. One thread at a time. REQUIRES: no user code runs under a guard.
///
/// Not guarded: memory that the storage was given after `guard_reads` and that is freed again during the read
/// (two moves, of which one is `resize_`; shared memory does not move); a numpy array that is resized by
/// force (`refcheck=False`); a file that is truncated under its memory map.
class ReadGuard {
 public:
  /// Guards `tensor`, which is dense and in host memory. Errors as `host_data`.
  explicit ReadGuard(const at::Tensor& tensor);
  ~ReadGuard();
  ReadGuard(ReadGuard&& other) noexcept;
  ReadGuard(const ReadGuard&) = delete;
  ReadGuard& operator=(const ReadGuard&) = delete;

  /// The address of the tensor's first item, valid during the life of the guard; null if it has no items.
  const char* data() const noexcept { return data_; }

 private:
  ReadGuard() = default;

  std::atomic<void*>* place_ = nullptr;  ///< where freeing threads look; null if the memory is not guarded
  const char* data_ = nullptr;
};

/// Returns guards of all tensors in host memory that hold data of `value`. Errors as `host_data`.
std::vector<ReadGuard> guard(const Element& value);

}  // namespace torch_distinput
