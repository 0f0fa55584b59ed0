// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "python/argument.h"

#include <c10/util/Exception.h>

#include <string_view>

#include "torch_distinput/options.h"

namespace torch_distinput {
namespace py = pybind11;
namespace {

/// A bool of Python or of numpy, whose name depends on its version.
bool is_bool(py::handle value) {
  const std::string_view type = Py_TYPE(value.ptr())->tp_name;
  return PyBool_Check(value.ptr()) || type == "numpy.bool" || type == "numpy.bool_";
}

template <class T>
struct Kind;

template <>
struct Kind<bool> {
  static constexpr const char* kName = "a bool";
  static bool takes(py::handle value) { return is_bool(value); }
  static bool convert(py::handle value) { return PyObject_IsTrue(value.ptr()) == 1; }
};

template <>
struct Kind<std::int64_t> {
  static constexpr const char* kName = "an int";
  static bool takes(py::handle value) { return !is_bool(value) && PyIndex_Check(value.ptr()); }
  static std::int64_t convert(py::handle value) {
    const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
    return index ? PyLong_AsLongLong(index.ptr()) : -1;
  }
};

template <>
struct Kind<double> {
  static constexpr const char* kName = "a number";
  static bool takes(py::handle value) {
    const PyNumberMethods* const number = Py_TYPE(value.ptr())->tp_as_number;
    return !is_bool(value) && number != nullptr &&
           (number->nb_float != nullptr || number->nb_index != nullptr);
  }
  static double convert(py::handle value) { return PyFloat_AsDouble(value.ptr()); }
};

template <>
struct Kind<AutoShardPolicy> {
  static constexpr const char* kName = "an AutoShardPolicy";
  static bool takes(py::handle value) { return py::isinstance<AutoShardPolicy>(value); }
  static AutoShardPolicy convert(py::handle value) { return value.cast<AutoShardPolicy>(); }
};

std::string text(py::handle value) { return py::repr(value); }

}  // namespace

template <class T>
std::optional<T> Argument<T>::get(const char* op, const char* parameter) const {
  if (given.is_none()) return std::nullopt;
  TORCH_CHECK_TYPE(Kind<T>::takes(given), op, ": `", parameter, "` must be ", Kind<T>::kName, ", but is ",
                   text(given), ".");
  const T value = Kind<T>::convert(given);
  if (PyErr_Occurred() == nullptr) return value;
  // A number that does not fit, unless it is of a class that cannot convert itself.
  if (!PyErr_ExceptionMatches(PyExc_OverflowError)) throw py::error_already_set();
  PyErr_Clear();
  C10_THROW_ERROR(ValueError,
                  c10::str(op, ": `", parameter, "` must fit in 64 bits, but is ", text(given), "."));
}

template struct Argument<bool>;
template struct Argument<std::int64_t>;
template struct Argument<double>;
template struct Argument<AutoShardPolicy>;

}  // namespace torch_distinput
