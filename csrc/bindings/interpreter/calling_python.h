// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/interpreter.h"
#include "bindings/interpreter/python_error.h"

namespace torch_distinput {

/// Runs `body` with the GIL. A pybind11 exception becomes a PythonError, which can be thrown several times.
template <class Body>
auto calling_python(Body&& body) {
  const GilScope gil;
  try {
    return run_python(body);
  } catch (py::error_already_set& error) {
    error.restore();
    throw_python();
  }
}

}  // namespace torch_distinput
