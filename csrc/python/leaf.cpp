// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "python/leaf.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <c10/core/DefaultDtype.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/tensor_numpy.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "python/py_ref.h"
#include "python/python_error.h"
#include "torch_distinput/dataset.h"

namespace torch_distinput {
namespace {

/// Loaded with the module and kept for the life of the process; null where numpy is not installed.
struct LeafTypes {
  PyObject* array = nullptr;
  PyObject* numpy_scalar = nullptr;
  PyObject* as_array = nullptr;
  PyObject* torch_tensor = nullptr;
  PyObject* dataset = nullptr;
} types;

bool is_instance(PyObject* value, PyObject* type) {
  if (type == nullptr) return false;
  const int answer = PyObject_IsInstance(value, type);
  if (answer < 0) throw_python();
  return answer == 1;
}

bool is_array(PyObject* value) { return is_instance(value, types.array); }
bool is_numpy_scalar(PyObject* value) { return is_instance(value, types.numpy_scalar); }

py::object call(PyObject* function, PyObject* argument) {
  return py::reinterpret_steal<py::object>(PyObject_CallOneArg(function, argument));
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
  C10_THROW_ERROR(TypeError,
                  "is " + what +
                      ", which is not supported yet; leaves are CPU tensors, numpy arrays, numbers or "
                      "lists of them.");
}

/// The same data in a tensor that Python does not know. The last holder of one that Python knows has to take
/// the GIL, so that threads of the library would fight for it row by row.
at::Tensor unknown_to_python(const at::Tensor& tensor) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      /*version_counter=*/c10::VariableVersion(0), /*allow_tensor_metadata_change=*/true));
}

at::Tensor from_tensor(PyObject* value) {
  const at::Tensor& tensor = THPVariable_Unpack(value);
  if (tensor.unsafeGetTensorImpl()->is_python_dispatch()) refuse(std::string("a ") + Py_TYPE(value)->tp_name);
  if (!tensor.device().is_cpu()) refuse("a tensor on " + tensor.device().str());
  if (tensor.layout() != at::kStrided || tensor.is_nested()) refuse("a tensor that is not dense");
  if (tensor.is_quantized()) refuse("a quantized tensor");
  // Bytes are copied as they lie in memory, so views that stand for other values are made real.
  return unknown_to_python(tensor.resolve_conj().resolve_neg());
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

/// Shares the memory of `array`; torch's own tensor of an array needs the GIL when it is freed, this one does
/// not.
at::Tensor share_array(PyObject* array) {
  const at::Tensor tensor = torch::utils::tensor_from_numpy(array, /*warn_if_not_writeable=*/false);
  auto keep_alive = [array = share(py::reinterpret_borrow<py::object>(array))](void*) {};
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), std::move(keep_alive),
                       tensor.options());
}

at::Tensor from_array(PyObject* array) {
  try {
    return share_array(array);
  } catch (const std::exception&) {
    PyErr_Clear();
  }
  // Negative strides and foreign byte orders can be copied; dtypes that torch lacks can not.
  const auto dtype = py::handle(array).attr("dtype");
  try {
    const auto copy = py::module_::import("numpy").attr("array")(
        py::handle(array), py::arg("dtype") = dtype.attr("newbyteorder")("="), py::arg("order") = "C");
    return share_array(copy.ptr());
  } catch (const std::exception&) {
    PyErr_Clear();
    refuse("a numpy array of dtype " + std::string(py::str(dtype)));
  }
}

/// The class that users know as Dataset. It lies above this module, so it is looked up when first needed.
PyObject* dataset_class() {
  if (types.dataset == nullptr) {
    types.dataset =
        py::object(py::module_::import("torch_distinput.dataset").attr("Dataset")).release().ptr();
  }
  return types.dataset;
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
  const auto list = py::reinterpret_steal<py::object>(PySequence_List(sequence));
  const auto made = call(types.torch_tensor, list.ptr());
  if (made) return from_tensor(made.ptr());
  PyErr_Clear();
  refuse("a list of parts with unequal shapes");
}

at::Tensor from_sequence(PyObject* sequence) {
  if (only_numbers(sequence)) return from_numbers(sequence);
  std::vector<at::Tensor> parts;
  for (const auto item : py::reinterpret_borrow<py::object>(sequence))
    parts.push_back(tensor_from(item.ptr()));
  const auto same_shape = [&](const at::Tensor& part) { return part.sizes() == parts.front().sizes(); };
  if (!std::all_of(parts.begin(), parts.end(), same_shape)) refuse("a list of parts with unequal shapes");
  return at::stack(parts);
}

at::Tensor tensor_from(PyObject* value) {
  if (THPVariable_Check(value)) return from_tensor(value);
  if (is_number(value)) return from_number(value);
  if (is_array(value)) return from_array(value);
  if (is_sequence(value)) return from_sequence(value);
  if (!PyUnicode_Check(value) && !PyBytes_Check(value) && is_numpy_scalar(value)) {
    const auto array = call(types.as_array, value);
    if (!array) throw_python();
    return from_array(array.ptr());
  }
  refuse(std::string("a ") + Py_TYPE(value)->tp_name);
}

}  // namespace

void load_leaf_types() {
  const auto keep = [](const py::object& object) { return py::object(object).release().ptr(); };
  types.torch_tensor = keep(py::module_::import("torch").attr("tensor"));
  const auto numpy = py::reinterpret_steal<py::object>(PyImport_ImportModule("numpy"));
  if (!numpy) return PyErr_Clear();
  types.array = keep(numpy.attr("ndarray"));
  types.numpy_scalar = keep(numpy.attr("generic"));
  types.as_array = keep(numpy.attr("asarray"));
}

py::object leaf_to_python(Leaf& leaf) {
  if (const auto* node = std::get_if<NodePtr>(&leaf)) {
    const py::object native = py::cast(Dataset(*node));
    const py::object dataset = call(dataset_class(), native.ptr());
    if (!dataset) throw_python();
    return dataset;
  }
  auto* const dense = std::get_if<at::Tensor>(&leaf);
  if (dense == nullptr) {
    C10_THROW_ERROR(TypeError, "a " + std::string(leaf_kind(leaf)) + " leaf has no Python form.");
  }
  PyObject* const wrapped = THPVariable_Wrap(std::move(*dense));
  if (wrapped == nullptr) throw_python();
  return py::reinterpret_steal<py::object>(wrapped);
}

Leaf leaf_from_python(PyObject* value) {
  if (!THPVariable_Check(value) && is_instance(value, dataset_class())) {
    return py::handle(value).attr("_native").cast<Dataset>().node();
  }
  return tensor_from(value);
}

}  // namespace torch_distinput
