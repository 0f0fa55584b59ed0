// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/leaves/number_leaf.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/DefaultDtype.h>
#include <torch/csrc/utils/tensor_numpy.h>

#include "bindings/interpreter/py_ref.h"
#include "bindings/interpreter/python_error.h"
#include "bindings/leaves/tensor_leaf.h"

namespace py = pybind11;

namespace torch_distinput {
namespace {

/// Loaded with the module and kept as long as the process; numpy's are null where it is not installed.
struct LeafTypes {
  PyObject* array = nullptr;
  PyObject* numpy_scalar = nullptr;
  PyObject* as_array = nullptr;
  PyObject* torch_tensor = nullptr;
} types;

bool is_instance(PyObject* value, PyObject* type) {
  if (type == nullptr) return false;
  const int answer = PyObject_IsInstance(value, type);
  if (answer < 0) throw_python();
  return answer == 1;
}

py::object call(PyObject* function, PyObject* argument) {
  return py::reinterpret_steal<py::object>(PyObject_CallOneArg(function, argument));
}

/// A tensor that shares the memory of `array`. Unlike torch's own, it needs no GIL when it is freed.
at::Tensor share_array(PyObject* array) {
  const at::Tensor tensor = torch::utils::tensor_from_numpy(array, /*warn_if_not_writeable=*/false);
  auto keep_alive = [array = share(py::reinterpret_borrow<py::object>(array))](void*) {};
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), std::move(keep_alive),
                       tensor.options());
}

/// As torch.tensor makes it: a number that is too large for `dtype` becomes infinite; `scalar_tensor` would
/// throw.
at::Tensor rounded(const at::Scalar& number, at::ScalarType exact, at::ScalarType dtype) {
  return at::scalar_tensor(number, exact).to(dtype);
}

}  // namespace

void load_number_types() {
  const auto keep = [](const py::object& object) { return py::object(object).release().ptr(); };
  types.torch_tensor = keep(py::module_::import("torch").attr("tensor"));
  const auto numpy = py::reinterpret_steal<py::object>(PyImport_ImportModule("numpy"));
  if (!numpy) return PyErr_Clear();
  types.array = keep(numpy.attr("ndarray"));
  types.numpy_scalar = keep(numpy.attr("generic"));
  types.as_array = keep(numpy.attr("asarray"));
}

bool is_array(PyObject* value) { return is_instance(value, types.array); }
bool is_numpy_scalar(PyObject* value) { return is_instance(value, types.numpy_scalar); }

bool is_number(PyObject* value) {
  if (PyLong_Check(value) || PyFloat_CheckExact(value)) return true;
  return (PyFloat_Check(value) || PyComplex_Check(value)) && !is_numpy_scalar(value);
}

at::Tensor from_number(PyObject* number) {
  if (PyBool_Check(number)) return at::scalar_tensor(number == Py_True, at::kBool);
  if (PyLong_Check(number)) {
    int overflow = 0;
    const std::int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow != 0) refuse_leaf("an int beyond 64 bits");
    return at::scalar_tensor(value, at::kLong);
  }
  if (PyFloat_Check(number)) {
    const double value = PyFloat_AS_DOUBLE(number);
    const at::ScalarType dtype = c10::get_default_dtype_as_scalartype();
    const bool fits = dtype == at::kFloat && std::abs(value) <= std::numeric_limits<float>::max();
    return fits ? at::scalar_tensor(value, dtype) : rounded(value, at::kDouble, dtype);
  }
  const c10::complex<double> value(PyComplex_RealAsDouble(number), PyComplex_ImagAsDouble(number));
  return rounded(value, at::kComplexDouble, c10::typeMetaToScalarType(c10::get_default_complex_dtype()));
}

at::Tensor from_numbers(PyObject* sequence) {
  const auto list = py::reinterpret_steal<py::object>(PySequence_List(sequence));
  const auto made = call(types.torch_tensor, list.ptr());
  if (made) return std::get<at::Tensor>(tensor_leaf_from_python(made.ptr()));
  PyErr_Clear();
  refuse_leaf("a list of parts with unequal shapes");
}

at::Tensor from_array(PyObject* array) {
  try {
    return share_array(array);
  } catch (const std::exception&) {
    PyErr_Clear();
  }
  // Arrays with negative strides or another byte order can be copied; those of dtypes that torch lacks
  // cannot.
  const auto dtype = py::handle(array).attr("dtype");
  try {
    const auto copy = py::module_::import("numpy").attr("array")(
        py::handle(array), py::arg("dtype") = dtype.attr("newbyteorder")("="), py::arg("order") = "C");
    return share_array(copy.ptr());
  } catch (const std::exception&) {
    PyErr_Clear();
    refuse_leaf("a numpy array of dtype " + std::string(py::str(dtype)));
  }
}

at::Tensor from_numpy_scalar(PyObject* scalar) {
  const auto array = call(types.as_array, scalar);
  if (!array) throw_python();
  return from_array(array.ptr());
}

}  // namespace torch_distinput
