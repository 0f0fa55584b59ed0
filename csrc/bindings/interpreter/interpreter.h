// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>

namespace torch_distinput {

namespace py = pybind11;

/// Whether Python code may still run; false once the interpreter shuts down.
bool interpreter_alive() noexcept;

/// Sleeps until the process ends.
[[noreturn]] void park_thread() noexcept;

/// This thread begins to end Python, which has joined all other threads but daemons.
void begin_shutdown() noexcept;

/// Whether Python shuts down, and this is another thread than the one that ends it.
bool is_left_behind() noexcept;

/// Runs `call`, Python code that may release the GIL for a while. During its shutdown the interpreter ends a
/// thread that wants the GIL back by unwinding its stack. C++ frames above would then use Python without the
/// GIL, so such a thread sleeps here until the process ends.
template <class Call>
auto run_python(Call&& call) {
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    park_thread();
  }
}

}  // namespace torch_distinput
