// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/leaves/string_leaf.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "bindings/interpreter/python_error.h"

namespace py = pybind11;

namespace torch_distinput {
namespace {

/// Reads nested lists of strings; the first string decides whether all must be str or bytes.
class StringReader {
 public:
  Bytes read(PyObject* value) {
    find_shape(value);
    visit(value, 0);
    if (shape_.empty()) return Bytes::single(strings_.front(), utf8_);
    Bytes column = Bytes::column(strings_, utf8_);
    column.shape = std::move(shape_);
    return column;
  }

 private:
  static bool is_sequence(PyObject* value) { return PyList_Check(value) || PyTuple_Check(value); }

  void find_shape(PyObject* value) {
    while (is_sequence(value)) {
      shape_.push_back(PySequence_Fast_GET_SIZE(value));
      if (shape_.back() == 0) return;
      value = PySequence_Fast_GET_ITEM(value, 0);
    }
    utf8_ = PyUnicode_Check(value);
  }

  void visit(PyObject* value, std::size_t depth) {
    if (depth == shape_.size()) return append(value);
    TORCH_CHECK_TYPE(is_sequence(value) && PySequence_Fast_GET_SIZE(value) == shape_[depth],
                     "is a list of strings in parts of unequal lengths; make them one length, or join each "
                     "part into one string.");
    for (Py_ssize_t i = 0; i < shape_[depth]; ++i) visit(PySequence_Fast_GET_ITEM(value, i), depth + 1);
  }

  void append(PyObject* value) {
    const bool is_text = PyUnicode_Check(value);
    TORCH_CHECK_TYPE(is_text == utf8_ && (is_text || PyBytes_Check(value)), "is a list of ",
                     utf8_ ? "str" : "bytes", " that holds a ", Py_TYPE(value)->tp_name, " as its string ",
                     strings_.size(), "; use str or bytes everywhere.");
    strings_.push_back(is_text ? text(value) : bytes(value));
  }

  static std::string_view bytes(PyObject* value) {
    return {PyBytes_AS_STRING(value), static_cast<std::size_t>(PyBytes_GET_SIZE(value))};
  }

  std::string_view text(PyObject* value) const {
    Py_ssize_t size = 0;
    const char* const data = PyUnicode_AsUTF8AndSize(value, &size);
    if (data != nullptr) return {data, static_cast<std::size_t>(size)};
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) throw_python();
    PyErr_Clear();
    C10_THROW_ERROR(ValueError,
                    c10::str("holds as its string ", strings_.size(),
                             " a str with a lone surrogate, which utf-8 cannot hold; use bytes instead."));
  }

  std::vector<std::int64_t> shape_;
  std::vector<std::string_view> strings_;  // borrowed from the value
  bool utf8_ = true;
};

py::object checked(PyObject* made) {
  if (made == nullptr) throw_python();
  return py::reinterpret_steal<py::object>(made);
}

class StringWriter {
 public:
  explicit StringWriter(const Bytes& strings) : strings_(strings) {}

  py::object write(std::size_t depth = 0) {
    if (depth == strings_.shape.size()) return string(next_++);
    const auto size = static_cast<Py_ssize_t>(strings_.shape[depth]);
    py::object list = checked(PyList_New(size));
    for (Py_ssize_t i = 0; i < size; ++i) PyList_SET_ITEM(list.ptr(), i, write(depth + 1).release().ptr());
    return list;
  }

 private:
  py::object string(std::int64_t index) const {
    const std::string_view string = strings_[index];
    const auto size = static_cast<Py_ssize_t>(string.size());
    if (!strings_.utf8) return checked(PyBytes_FromStringAndSize(string.data(), size));
    PyObject* const text = PyUnicode_DecodeUTF8(string.data(), size, nullptr);
    if (text != nullptr) return py::reinterpret_steal<py::object>(text);
    if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) throw_python();
    PyErr_Clear();
    C10_THROW_ERROR(ValueError, c10::str("is not utf-8 in string ", index,
                                         "; read it as bytes, with StringSpec(encoding=None)."));
  }

  const Bytes& strings_;
  std::int64_t next_ = 0;
};

std::size_t bytes_of(const Bytes& strings) {
  const std::int64_t count = strings.count();
  if (count == 0) return 0;
  const std::string_view first = strings[0];
  const std::string_view last = strings[count - 1];
  return static_cast<std::size_t>(last.data() + last.size() - first.data());
}

/// glibc returns the top of its heap to the system when more than twice the largest mapped block that was
/// ever freed is free there (mallopt(3), M_TRIM_THRESHOLD). The memory of each batch of strings would then be
/// faulted in again: at 100 kB a string that costs more than reading them. To free a block of a batch's size
/// once raises the threshold, as a tensor of that size would.
void expect_batch_of(std::size_t bytes) {
  constexpr std::size_t kMin = std::size_t{1} << 20;
  constexpr std::size_t kMax = std::size_t{32} << 20;  // glibc's own limit
  static std::atomic<std::size_t> expected{kMin};
  bytes = std::min(bytes, kMax);
  if (bytes <= expected.load(std::memory_order_relaxed)) return;
  expected.store(bytes, std::memory_order_relaxed);
  PyMem_RawFree(PyMem_RawMalloc(bytes));
}

}  // namespace

py::object strings_to_python(const Bytes& strings) {
  expect_batch_of(bytes_of(strings));
  return StringWriter(strings).write();
}

Bytes strings_from_python(PyObject* value) { return StringReader().read(value); }

}  // namespace torch_distinput
