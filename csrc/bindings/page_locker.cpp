// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/page_locker.h"

#include <cstdint>
#include <exception>

#include "bindings/interpreter/gil.h"

namespace torch_distinput {

bool PythonPageLocker::lock(char* data, std::uint64_t bytes) noexcept {
  try {
    const GilScope gil;
    return py::handle(lock_.get())(reinterpret_cast<std::uintptr_t>(data), bytes).cast<bool>();
  } catch (const std::exception&) {
    return false;
  }
}

void PythonPageLocker::unlock(char* data) noexcept {
  try {
    const GilScope gil;
    py::handle(unlock_.get())(reinterpret_cast<std::uintptr_t>(data));
  } catch (const std::exception&) {
    // The interpreter shuts down, and with the process all locks end.
  }
}

}  // namespace torch_distinput
