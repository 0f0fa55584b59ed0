// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <pybind11/pybind11.h>

#include "bindings/interpreter/py_ref.h"
#include "workers/page_locks.h"

namespace torch_distinput {

/// Page-locks memory through Python functions: torch shows its runtime library only there. Any thread, with
/// or without the GIL.
class PythonPageLocker final : public PageLocker {
 public:
  /// `lock(address, bytes)` returns whether it did; `unlock(address)`. Neither raises. REQUIRES: the GIL.
  PythonPageLocker(pybind11::object lock, pybind11::object unlock)
      : lock_(share(std::move(lock))), unlock_(share(std::move(unlock))) {}

  bool lock(char* data, std::uint64_t bytes) noexcept override;
  void unlock(char* data) noexcept override;

 private:
  PyRef lock_;
  PyRef unlock_;
};

}  // namespace torch_distinput
