// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch_distinput {

/// While one lives, what this thread asks of CUDA does not disturb a graph that another thread records. Does
/// nothing without the CUDA library. Scopes nest.
class CaptureGuard {
 public:
  CaptureGuard() noexcept;
  ~CaptureGuard();
  CaptureGuard(const CaptureGuard&) = delete;
  CaptureGuard& operator=(const CaptureGuard&) = delete;

 private:
  int mode_;  // the thread's mode outside
};

}  // namespace torch_distinput
