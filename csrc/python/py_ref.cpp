// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "python/py_ref.h"

#include "python/gil.h"

namespace torch_distinput {
namespace {

void drop(PyObject* object) noexcept {
  if (!interpreter_alive()) return;
  try {
    const GilScope gil;
    const py::error_scope keep_error;
    Py_DECREF(object);
  } catch (const std::exception&) {
    return;  // the shutdown began just now
  }
}

}  // namespace

PyRef share(py::object object) { return {object.release().ptr(), drop}; }

}  // namespace torch_distinput
