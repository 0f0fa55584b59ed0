// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "python/leaf.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <c10/core/DefaultDtype.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/tensor_numpy.h>

#include <algorithm>
#include <string>
#include <vector>

#include "python/python_error.h"

namespace torch_distinput {
namespace {

/// An attribute of a Python module; null where the module is missing. Kept for the life of the process.
PyObject* import_attribute(const char* module_name, const char* name) {
  const auto module = py::reinterpret_steal<py::object>(PyImport_ImportModule(module_name));
  if (!module) {
    PyErr_Clear();
    return nullptr;
  }
  return py::object(module.attr(name)).release().ptr();
}

bool is_instance(PyObject* value, PyObject* type) {
  if (type == nullptr) return false;
  const int answer = PyObject_IsInstance(value, type);
  if (answer < 0) throw_python();
  return answer == 1;
}

bool is_array(PyObject* value) {
  static PyObject* const type = import_attribute("numpy", "ndarray");
  return is_instance(value, type);
}

bool is_numpy_scalar(PyObject* value) {
  static PyObject* const type = import_attribute("numpy", "generic");
  return is_instance(value, type);
}

/// A number of Python. numpy.float64 is a float too, but keeps its dtype as the other scalars of numpy do.
bool is_number(PyObject* value) {
  if (PyLong_Check(value) || PyFloat_CheckExact(value)) return true;
  return (PyFloat_Check(value) || PyComplex_Check(value)) && !is_numpy_scalar(value);
}

bool is_sequence(PyObject* value) {
  return PyList_Check(value) || PyTuple_Check(value) || PyRange_Check(value);
}

[[noreturn]] void refuse(const std::string& what) {
  C10_THROW_ERROR(TypeError, "is " + what +
                                 ", which is not supported yet; leaves are CPU tensors, numpy arrays, numbers or "
                                 "lists of them.");
}

at::Tensor from_tensor(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu()) refuse("a tensor on " + tensor.device().str());
  if (tensor.layout() != at::kStrided || tensor.is_nested()) refuse("a tensor that is not dense");
  if (tensor.is_quantized()) refuse("a quantized tensor");
  // Bytes are copied as they lie in memory, so views that stand for other values are made real.
  return tensor.resolve_conj().resolve_neg();
}

at::Tensor from_number(PyObject* number) {
  if (PyBool_Check(number)) return at::scalar_tensor(number == Py_True, at::kBool);
  if (PyLong_Check(number)) {
    int overflow = 0;
    const std::int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow != 0) refuse("an int beyond 64 bits");
    return at::scalar_tensor(value, at::kLong);
  }
  if (PyFloat_Check(number)) {
    return at::scalar_tensor(PyFloat_AS_DOUBLE(number), c10::get_default_dtype_as_scalartype());
  }
  const c10::complex<double> value(PyComplex_RealAsDouble(number), PyComplex_ImagAsDouble(number));
  return at::scalar_tensor(value, c10::typeMetaToScalarType(c10::get_default_complex_dtype()));
}

at::Tensor from_array(PyObject* array) {
  try {
    return torch::utils::tensor_from_numpy(array, /*warn_if_not_writeable=*/false);
  } catch (const std::exception&) {
    PyErr_Clear();
  }
  // Negative strides and foreign byte orders can be copied; dtypes that torch lacks can not.
  const auto dtype = py::handle(array).attr("dtype");
  try {
    const auto copy = py::module_::import("numpy").attr("array")(
        py::handle(array), py::arg("dtype") = dtype.attr("newbyteorder")("="), py::arg("order") = "C");
    return torch::utils::tensor_from_numpy(copy.ptr(), /*warn_if_not_writeable=*/false);
  } catch (const std::exception&) {
    PyErr_Clear();
    refuse("a numpy array of dtype " + std::string(py::str(dtype)));
  }
}

at::Tensor tensor_from(PyObject* value);

/// Whether torch.tensor can read the list at once: numbers at the bottom, no arrays or tensors.
bool only_numbers(PyObject* sequence) {
  const auto items = py::reinterpret_steal<py::object>(PySequence_Fast(sequence, "a list"));
  if (!items) throw_python();
  PyObject** const begin = PySequence_Fast_ITEMS(items.ptr());
  return std::all_of(begin, begin + PySequence_Fast_GET_SIZE(items.ptr()), [](PyObject* item) {
    return is_number(item) || (is_sequence(item) && only_numbers(item));
  });
}

at::Tensor from_numbers(PyObject* sequence) {
  static PyObject* const torch_tensor = import_attribute("torch", "tensor");
  const auto list = py::reinterpret_steal<py::object>(PySequence_List(sequence));
  const auto made = py::reinterpret_steal<py::object>(PyObject_CallOneArg(torch_tensor, list.ptr()));
  if (made) return THPVariable_Unpack(made.ptr());
  PyErr_Clear();
  refuse("a list of parts with unequal shapes");
}

at::Tensor from_sequence(PyObject* sequence) {
  if (only_numbers(sequence)) return from_numbers(sequence);
  std::vector<at::Tensor> parts;
  for (const auto item : py::reinterpret_borrow<py::object>(sequence)) parts.push_back(tensor_from(item.ptr()));
  const auto same_shape = [&](const at::Tensor& part) { return part.sizes() == parts.front().sizes(); };
  if (!std::all_of(parts.begin(), parts.end(), same_shape)) refuse("a list of parts with unequal shapes");
  return at::stack(parts);
}

at::Tensor tensor_from(PyObject* value) {
  if (THPVariable_Check(value)) return from_tensor(THPVariable_Unpack(value));
  if (is_number(value)) return from_number(value);
  if (is_array(value)) return from_array(value);
  if (is_sequence(value)) return from_sequence(value);
  if (!PyUnicode_Check(value) && !PyBytes_Check(value) && is_numpy_scalar(value)) {
    static PyObject* const as_array = import_attribute("numpy", "asarray");
    const auto array = py::reinterpret_steal<py::object>(PyObject_CallOneArg(as_array, value));
    if (!array) throw_python();
    return from_array(array.ptr());
  }
  refuse(std::string("a ") + Py_TYPE(value)->tp_name);
}

}  // namespace

py::object leaf_to_python(Leaf& leaf) {
  auto* const dense = std::get_if<at::Tensor>(&leaf);
  if (dense == nullptr) {
    C10_THROW_ERROR(TypeError, "a " + std::string(leaf_kind(leaf)) + " leaf has no Python form.");
  }
  PyObject* const wrapped = THPVariable_Wrap(std::move(*dense));
  if (wrapped == nullptr) throw_python();
  return py::reinterpret_steal<py::object>(wrapped);
}

Leaf leaf_from_python(PyObject* value) { return tensor_from(value); }

}  // namespace torch_distinput
