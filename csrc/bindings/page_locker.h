// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

#include "workers/page_locks.h"

namespace torch_distinput {

/// Page-locks memory through Python functions: torch shows its runtime library only there. Any thread, with
/// or without the GIL.
class PythonPageLocker final : public PageLocker {
 public:
  /// `lock(address, bytes)` returns whether it did; `unlock(address)`. Neither raises. REQUIRES: the GIL.
  PythonPageLocker(pybind11::object lock, pybind11::object unlock)
      : lock_(std::move(lock)), unlock_(std::move(unlock)) {}
  ~PythonPageLocker() override;

  bool lock(char* data, std::uint64_t bytes) noexcept override;
  void unlock(char* data) noexcept override;

 private:
  pybind11::object lock_;
  pybind11::object unlock_;
};

}  // namespace torch_distinput
