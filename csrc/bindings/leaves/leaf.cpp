// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/leaves/leaf.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/stack.h>
#include <pybind11/gil_safe_call_once.h>

#include "bindings/interpreter/python_error.h"
#include "bindings/interpreter/torch_tensor.h"
#include "bindings/leaves/number_leaf.h"
#include "bindings/leaves/object_leaf.h"
#include "bindings/leaves/string_leaf.h"
#include "bindings/leaves/tensor_leaf.h"
#include "torch_distinput/dataset.h"

namespace py = pybind11;

namespace torch_distinput {
namespace {

bool is_sequence(PyObject* value) {
  return PyList_Check(value) || PyTuple_Check(value) || PyRange_Check(value);
}

bool is_string(PyObject* value) { return PyUnicode_Check(value) || PyBytes_Check(value); }

bool is_dense_value(PyObject* value) {
  return is_tensor(value) || is_number(value) || is_array(value) || is_numpy_scalar(value);
}

/// Whether torch.tensor can read the list in one call: its innermost items are numbers, not arrays or
/// tensors.
bool only_numbers(PyObject* sequence) {
  const auto items = py::reinterpret_steal<py::object>(PySequence_Fast(sequence, "a list"));
  if (!items) throw_python();
  PyObject** const begin = PySequence_Fast_ITEMS(items.ptr());
  return std::all_of(begin, begin + PySequence_Fast_GET_SIZE(items.ptr()), [](PyObject* item) {
    return is_number(item) || (is_sequence(item) && only_numbers(item));
  });
}

at::Tensor dense_from(PyObject* value);

at::Tensor stack_parts(PyObject* sequence) {
  std::vector<at::Tensor> parts;
  for (const auto item : py::reinterpret_borrow<py::object>(sequence))
    parts.push_back(dense_from(item.ptr()));
  const auto same_shape = [&](const at::Tensor& part) { return part.sizes() == parts.front().sizes(); };
  if (!std::all_of(parts.begin(), parts.end(), same_shape))
    refuse_leaf("a list of parts with unequal shapes");
  return at::stack(parts);
}

at::Tensor dense_from(PyObject* value) {
  if (is_tensor(value)) {
    Leaf leaf = tensor_leaf_from_python(value);
    if (auto* dense = std::get_if<at::Tensor>(&leaf)) return std::move(*dense);
    refuse_leaf("a list of " + std::string(leaf_kind(leaf)) + " tensors");
  }
  if (is_number(value)) return from_number(value);
  if (is_array(value)) return from_array(value);
  if (is_sequence(value)) return only_numbers(value) ? from_numbers(value) : stack_parts(value);
  if (!is_string(value) && is_numpy_scalar(value)) return from_numpy_scalar(value);
  refuse_leaf("a list that holds a " + std::string(Py_TYPE(value)->tp_name) + " among numbers");
}

/// The class `torch_distinput.Dataset`. Its module imports this one, so it is looked up when first needed.
py::handle dataset_class() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> kept;
  const auto look_up = [] {
    return py::object(py::module_::import("torch_distinput.datasets._dataset").attr("Dataset"));
  };
  return kept.call_once_and_store_result(look_up).get_stored();
}

/// Numpy arrays of strings are read as Python strings.
Leaf array_leaf(PyObject* array) {
  const py::handle handle(array);
  const auto kind = handle.attr("dtype").attr("kind").cast<std::string>();
  if (kind != "U" && kind != "S" && kind != "O" && kind != "T") return from_array(array);
  const auto shape = handle.attr("shape").cast<std::vector<std::int64_t>>();
  if (handle.attr("size").cast<std::int64_t>() == 0) {
    Bytes none = Bytes::column({}, /*utf8=*/kind != "S");
    none.shape = shape;
    return none;
  }
  const py::object items = handle.attr("tolist")();
  py::object first = items;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) first = first[py::int_(0)];
  if (!is_string(first.ptr())) refuse_leaf("a numpy array of dtype object that holds no strings");
  return strings_from_python(items.ptr());
}

/// The first innermost item of nested lists; null where a list is empty.
PyObject* first_item(PyObject* value) {
  while (PyList_Check(value) || PyTuple_Check(value)) {
    if (PySequence_Fast_GET_SIZE(value) == 0) return nullptr;
    value = PySequence_Fast_GET_ITEM(value, 0);
  }
  return value;
}

/// Whether an empty list that is read as `like` is a list of strings or objects and not a tensor.
bool is_list(const LeafSpec* like) {
  return like != nullptr &&
         (std::holds_alternative<StringSpec>(*like) || std::holds_alternative<OpaqueSpec>(*like));
}

Leaf sequence_leaf(PyObject* sequence, Objects objects, const LeafSpec* like) {
  PyObject* const first = first_item(sequence);
  if (first == nullptr && is_list(like))
    return std::move(zero_rows({Structure::leaf(), {*like}}).leaves().front());
  if (first == nullptr || is_sequence(first)) return dense_from(sequence);
  if (is_string(first)) return strings_from_python(sequence);
  if (is_dense_value(first) || objects == Objects::kRefuse) return dense_from(sequence);
  return objects_from_python(sequence);
}

}  // namespace

void load_leaf_types() {
  load_number_types();
  load_tensor_types();
}

py::object leaf_to_python(Leaf& leaf) {
  if (auto* dense = std::get_if<at::Tensor>(&leaf)) return dense_to_python(std::move(*dense));
  if (const auto* strings = std::get_if<Bytes>(&leaf)) return strings_to_python(*strings);
  if (const auto* ragged = std::get_if<Ragged>(&leaf)) return ragged_to_python(*ragged);
  if (auto* sparse = std::get_if<Sparse>(&leaf)) return sparse_to_python(std::move(*sparse));
  if (const auto* opaque = std::get_if<Opaque>(&leaf)) return objects_to_python(*opaque);
  return dataset_class()(Dataset(std::get<NodePtr>(leaf)));
}

Leaf leaf_from_python(PyObject* value, Objects objects, const LeafSpec* like) {
  if (is_tensor(value)) return tensor_leaf_from_python(value);
  if (is_string(value)) return strings_from_python(value);
  if (is_number(value)) return from_number(value);
  if (is_array(value)) return array_leaf(value);
  if (is_sequence(value)) return sequence_leaf(value, objects, like);
  if (is_numpy_scalar(value)) return from_numpy_scalar(value);
  if (py::isinstance(value, dataset_class())) return py::handle(value).attr("_native").cast<Dataset>().node();
  if (objects == Objects::kRefuse) refuse_leaf(std::string("a ") + Py_TYPE(value)->tp_name);
  return objects_from_python(value);
}

}  // namespace torch_distinput
