// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/interpreter/torch_tensor.h"

#include <utility>

#include <torch/csrc/autograd/python_variable.h>

#include "bindings/interpreter/python_error.h"

namespace torch_distinput {

bool is_tensor(PyObject* value) { return THPVariable_Check(value); }

bool is_plain_tensor(PyObject* value) noexcept {
  return Py_TYPE(value) == reinterpret_cast<PyTypeObject*>(THPVariableClass);
}

const at::Tensor& unwrap_tensor(PyObject* value) noexcept { return THPVariable_Unpack(value); }

pybind11::object wrap_tensor(at::Tensor tensor) {
  PyObject* const wrapped = THPVariable_Wrap(std::move(tensor));
  if (wrapped == nullptr) throw_python();
  return pybind11::reinterpret_steal<pybind11::object>(wrapped);
}

}  // namespace torch_distinput
