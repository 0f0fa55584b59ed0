// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/interpreter/interpreter.h"

#include <unistd.h>

namespace torch_distinput {

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

}  // namespace torch_distinput
