// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/interpreter/interpreter.h"

#include <atomic>
#include <thread>

#include <unistd.h>

namespace torch_distinput {
namespace {

/// The thread that ends Python; none before.
std::atomic<std::thread::id> ending_thread;

}  // namespace

bool interpreter_alive() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() != 0 && Py_IsFinalizing() == 0;
#else
  return Py_IsInitialized() != 0 && _Py_IsFinalizing() == 0;
#endif
}

void park_thread() noexcept {
  for (;;) ::pause();
}

void begin_shutdown() noexcept { ending_thread = std::this_thread::get_id(); }

bool is_left_behind() noexcept {
  const std::thread::id ending = ending_thread;
  return ending != std::thread::id() && ending != std::this_thread::get_id();
}

}  // namespace torch_distinput
