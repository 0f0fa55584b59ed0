// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/leaves/object_leaf.h"

#include <c10/util/Exception.h>

#include "bindings/interpreter/py_ref.h"
#include "bindings/interpreter/python_error.h"

namespace py = pybind11;

namespace torch_distinput {
namespace {

/// Appends the objects in `value`, nested lists with the dims of `column` from `depth` on.
void append(PyObject* value, std::size_t depth, Opaque& column) {
  if (depth == column.shape.size()) {
    TORCH_CHECK_TYPE(value != Py_None && !PyDict_Check(value) && !PyList_Check(value),
                     "is a list that holds a ", Py_TYPE(value)->tp_name,
                     ", which cannot be in a column of objects; wrap it in an object of your own.");
    column.objects.push_back(share(py::reinterpret_borrow<py::object>(value)));
    return;
  }
  TORCH_CHECK_TYPE(PyList_Check(value) && PyList_GET_SIZE(value) == column.shape[depth],
                   "is a list of objects in parts of unequal lengths.");
  for (Py_ssize_t i = 0; i < column.shape[depth]; ++i) append(PyList_GET_ITEM(value, i), depth + 1, column);
}

py::object nested(const Opaque& column, std::size_t depth, std::size_t& next) {
  if (depth == column.shape.size())
    return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(column.objects[next++].get()));
  const auto size = static_cast<Py_ssize_t>(column.shape[depth]);
  auto list = py::reinterpret_steal<py::object>(PyList_New(size));
  if (!list) throw_python();
  for (Py_ssize_t i = 0; i < size; ++i)
    PyList_SET_ITEM(list.ptr(), i, nested(column, depth + 1, next).release().ptr());
  return list;
}

}  // namespace

py::object objects_to_python(const Opaque& opaque) {
  std::size_t next = 0;
  return nested(opaque, 0, next);
}

Opaque objects_from_python(PyObject* value) {
  Opaque column;
  PyObject* first = value;
  for (; PyList_Check(first); first = PyList_GET_ITEM(first, 0)) {
    column.shape.push_back(PyList_GET_SIZE(first));
    if (column.shape.back() == 0) break;
  }
  column.type_name = Py_TYPE(first)->tp_name;
  append(value, 0, column);
  return column;
}

}  // namespace torch_distinput
