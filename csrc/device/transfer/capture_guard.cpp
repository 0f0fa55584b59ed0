// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/transfer/capture_guard.h"

#include "device/cuda_library.h"

namespace torch_distinput {
namespace {

constexpr int kRelaxed = 2;

void exchange(int& mode) noexcept {
  if (const CudaFunctions* const cuda = cuda_library().functions) cuda->exchange_capture_mode(&mode);
}

}  // namespace

CaptureGuard::CaptureGuard() noexcept : mode_(kRelaxed) { exchange(mode_); }
CaptureGuard::~CaptureGuard() { exchange(mode_); }

}  // namespace torch_distinput
