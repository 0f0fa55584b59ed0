// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/argument.h"

#include <string_view>

#include <c10/util/Exception.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/utils/pybind.h>

#include "torch_distinput/options.h"

namespace torch_distinput {
namespace py = pybind11;
namespace {

/// Whether `value` is a bool of Python or of numpy; the name of numpy's type depends on numpy's version.
bool is_bool(py::handle value) {
  const std::string_view type = Py_TYPE(value.ptr())->tp_name;
  return PyBool_Check(value.ptr()) || type == "numpy.bool" || type == "numpy.bool_";
}

template <class T>
struct Kind;

template <>
struct Kind<bool> {
  static constexpr const char* kArgumentName = "a bool";
  static bool takes(py::handle value) { return is_bool(value); }
  static bool convert(py::handle value) { return PyObject_IsTrue(value.ptr()) == 1; }
};

template <>
struct Kind<std::int64_t> {
  static constexpr const char* kArgumentName = "an int";
  static bool takes(py::handle value) { return !is_bool(value) && PyIndex_Check(value.ptr()); }
  static std::int64_t convert(py::handle value) {
    const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
    return index ? PyLong_AsLongLong(index.ptr()) : -1;
  }
};

template <>
struct Kind<double> {
  static constexpr const char* kArgumentName = "a number";
  static bool takes(py::handle value) {
    const PyNumberMethods* const number = Py_TYPE(value.ptr())->tp_as_number;
    return !is_bool(value) && number != nullptr &&
           (number->nb_float != nullptr || number->nb_index != nullptr);
  }
  static double convert(py::handle value) { return PyFloat_AsDouble(value.ptr()); }
};

template <>
struct Kind<std::string> {
  static constexpr const char* kArgumentName = "a str";
  static bool takes(py::handle value) { return PyUnicode_Check(value.ptr()); }
  static std::string convert(py::handle value) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    return text == nullptr ? "" : std::string(text, static_cast<std::size_t>(size));
  }
};

template <>
struct Kind<c10::ScalarType> {
  static constexpr const char* kArgumentName = "a torch.dtype";
  static bool takes(py::handle value) { return THPDtype_Check(value.ptr()); }
  static c10::ScalarType convert(py::handle value) { return value.cast<c10::ScalarType>(); }
};

template <>
struct Kind<AutoShardPolicy> {
  static constexpr const char* kArgumentName = "an AutoShardPolicy";
  static bool takes(py::handle value) { return py::isinstance<AutoShardPolicy>(value); }
  static AutoShardPolicy convert(py::handle value) { return value.cast<AutoShardPolicy>(); }
};

std::string text(py::handle value) { return py::repr(value); }

template <class T>
T read(py::handle given, const std::string& op, const std::string& parameter) {
  TORCH_CHECK_TYPE(Kind<T>::takes(given), op, ": `", parameter, "` must be ", Kind<T>::kArgumentName,
                   ", but is ", text(given), ".");
  T value = Kind<T>::convert(given);
  if (PyErr_Occurred() == nullptr) return value;
  // A value that does not fit. Any other exception comes from the conversion of a user's class.
  const bool number = PyErr_ExceptionMatches(PyExc_OverflowError);
  if (!number && !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) throw py::error_already_set();
  PyErr_Clear();
  C10_THROW_ERROR(ValueError, c10::str(op, ": `", parameter, "` must ", number ? "fit in 64 bits" : "be text",
                                       ", but is ", text(given), "."));
}

template <class T>
struct Reader {
  static T get(py::handle given, const std::string& op, const std::string& parameter) {
    return read<T>(given, op, parameter);
  }
};

template <class T>
struct Reader<std::vector<T>> {
  static std::vector<T> get(py::handle given, const std::string& op, const std::string& parameter) {
    const bool sequence = PyList_Check(given.ptr()) || PyTuple_Check(given.ptr());
    TORCH_CHECK_TYPE(sequence, op, ": `", parameter, "` must be a list or tuple, but is ", text(given), ".");
    std::vector<T> values;
    for (const auto value : py::reinterpret_borrow<py::sequence>(given))
      values.push_back(read<T>(value, op, c10::str(parameter, "[", values.size(), "]")));
    return values;
  }
};

}  // namespace

template <class T>
T Required<T>::get(const char* op, const char* parameter) const {
  return Reader<T>::get(given, op, parameter);
}

template struct Required<bool>;
template struct Required<std::int64_t>;
template struct Required<double>;
template struct Required<std::string>;
template struct Required<c10::ScalarType>;
template struct Required<AutoShardPolicy>;
template struct Required<std::vector<bool>>;
template struct Required<std::vector<std::int64_t>>;
template struct Required<std::vector<double>>;

}  // namespace torch_distinput
