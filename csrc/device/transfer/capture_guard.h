// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch_distinput {

/// While an object lives, its thread's calls of CUDA do not disturb a graph that another thread records: the
/// thread's capture mode is "relaxed" (cudaThreadExchangeStreamCaptureMode). Does nothing without the CUDA
/// library. Scopes nest.
class CaptureGuard {
 public:
  CaptureGuard() noexcept;
  ~CaptureGuard();
  CaptureGuard(const CaptureGuard&) = delete;
  CaptureGuard& operator=(const CaptureGuard&) = delete;

 private:
  int mode_;  // the thread's mode before
};

}  // namespace torch_distinput
