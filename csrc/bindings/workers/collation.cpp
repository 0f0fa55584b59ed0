// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "bindings/interpreter/torch_tensor.h"
#include "bindings/workers/encoder.h"
#include "bindings/workers/row_view.h"

namespace torch_distinput {

/// torch's default_collate, sample by sample straight into the message. A member returns false for samples
/// that default_collate treats in another way or refuses: torch's own function is called then.
class Collation {
 public:
  explicit Collation(Encoder& to) : to_(to) {}

  /// `in_list`: default_collate would be called with a list of the samples, else with a tuple.
  bool add(const std::vector<PyObject*>& samples, bool in_list, int depth);

 private:
  bool add_rows(const std::vector<PyObject*>& samples);
  bool add_texts(const std::vector<PyObject*>& samples, bool in_list);
  bool add_dicts(const std::vector<PyObject*>& samples, int depth);
  bool add_sequences(const std::vector<PyObject*>& samples, int depth);
  bool add_named_tuples(const std::vector<PyObject*>& samples, int depth);
  bool add_columns(const std::vector<PyObject*>& samples, Py_ssize_t width, int depth);
  template <class T, class Read>
  bool add_numbers(const std::vector<PyObject*>& samples, at::ScalarType dtype, Read read);

  Encoder& to_;
};

namespace {

constexpr int kDeepestSample = 40;

std::optional<RowView> row_of(PyObject* value, bool tensor) {
  return tensor ? row_of_tensor(value) : row_of_array(value);
}

}  // namespace

bool Encoder::add_collated(py::handle samples) {
  if (!PyList_CheckExact(samples.ptr()) || PyList_GET_SIZE(samples.ptr()) == 0) return false;
  // Pickling a class may run users' code, which may change the list.
  const auto held = py::reinterpret_steal<py::object>(PyList_AsTuple(samples.ptr()));
  if (!held) throw py::error_already_set();
  PyObject* const* const items = PySequence_Fast_ITEMS(held.ptr());
  const std::vector<PyObject*> rows(items, items + PyTuple_GET_SIZE(held.ptr()));
  const Mark before = mark();
  if (Collation(*this).add(rows, true, 0)) return true;
  rewind(before);
  return false;
}

bool Collation::add(const std::vector<PyObject*>& samples, bool in_list, int depth) {
  if (depth > kDeepestSample) return false;
  PyObject* const first = samples.front();
  PyTypeObject* const type = Py_TYPE(first);
  const auto same = [type](PyObject* sample) { return Py_TYPE(sample) == type; };
  if (!std::all_of(samples.begin(), samples.end(), same)) return false;
  if (is_plain_tensor(first) || is_plain_array(first)) return add_rows(samples);
  if (type == &PyBool_Type) {
    return add_numbers<bool>(samples, at::kBool, [](PyObject* sample, bool& value) {
      value = sample == Py_True;
      return true;
    });
  }
  if (type == &PyLong_Type) {
    return add_numbers<std::int64_t>(samples, at::kLong, [](PyObject* sample, std::int64_t& value) {
      int overflow = 0;
      value = PyLong_AsLongLongAndOverflow(sample, &overflow);
      return overflow == 0;
    });
  }
  if (type == &PyFloat_Type) {
    return add_numbers<double>(samples, at::kDouble, [](PyObject* sample, double& value) {
      value = PyFloat_AS_DOUBLE(sample);
      return true;
    });
  }
  if (type == &PyUnicode_Type || type == &PyBytes_Type) return add_texts(samples, in_list);
  if (type == &PyDict_Type) return add_dicts(samples, depth);
  if (type == &PyTuple_Type || type == &PyList_Type) return add_sequences(samples, depth);
  if (PyTuple_Check(first)) return add_named_tuples(samples, depth);
  return is_numpy_number(first) && add_rows(samples);
}

bool Collation::add_rows(const std::vector<PyObject*>& samples) {
  const bool tensor = is_plain_tensor(samples.front());
  const std::optional<RowView> first = row_of(samples.front(), tensor);
  if (!first.has_value()) return false;
  const auto element = static_cast<std::int64_t>(c10::elementSize(first->dtype));
  std::int64_t bytes = element;
  for (const std::int64_t size : first->sizes) bytes *= size;
  RowsCopy copy{0, static_cast<std::uint64_t>(bytes), {}, {}, {}, element};
  copy.rows.reserve(samples.size());
  bool dense = true;
  std::vector<std::int64_t> strides;
  for (PyObject* const sample : samples) {
    std::optional<RowView> row = row_of(sample, tensor);
    if (!row.has_value() || !row->like(*first)) return false;
    if (!row->dense) {
      // Rows of different strides are rare; torch's function copies them.
      if (!dense ? row->strides != strides : sample != samples.front()) return false;
      dense = false;
      strides = row->strides;
    } else if (!dense) {
      return false;
    }
    copy.rows.push_back(row->data);
    // Users' code may let go of the sample before the message is made.
    to_.keep(row->owner ? std::move(row->owner) : py::reinterpret_borrow<py::object>(sample));
  }
  if (!dense) {
    copy.sizes = first->sizes;
    copy.strides = strides;
  }
  std::vector<std::int64_t> sizes{static_cast<std::int64_t>(samples.size())};
  sizes.insert(sizes.end(), first->sizes.begin(), first->sizes.end());
  std::vector<std::int64_t> dense_strides(sizes.size(), 1);
  for (std::size_t dim = sizes.size() - 1; dim-- > 0;) {
    dense_strides[dim] = dense_strides[dim + 1] * std::max<std::int64_t>(sizes[dim + 1], 1);
  }
  const std::uint64_t total = copy.row_bytes * samples.size();
  copy.offset = to_.reserve(total);
  to_.tensor_head(first->dtype, sizes, dense_strides, total, copy.offset);
  if (total > 0) to_.copy_rows(std::move(copy));
  return true;
}

template <class T, class Read>
bool Collation::add_numbers(const std::vector<PyObject*>& samples, at::ScalarType dtype, Read read) {
  const std::uint64_t bytes = samples.size() * sizeof(T);
  std::vector<char>& values = to_.numbers_.emplace_back(bytes);
  auto* next = reinterpret_cast<T*>(values.data());
  for (PyObject* const sample : samples) {
    if (!read(sample, *next++)) return false;
  }
  const std::uint64_t offset = to_.reserve(bytes);
  to_.tensor_head(dtype, {static_cast<std::int64_t>(samples.size())}, {1}, bytes, offset);
  to_.copy_rows({offset, bytes, {values.data()}, {}, {}, 1});
  return true;
}

bool Collation::add_texts(const std::vector<PyObject*>& samples, bool in_list) {
  to_.tree_.tag(in_list ? Tag::kList : Tag::kTuple);
  to_.tree_.length(samples.size());
  return std::all_of(samples.begin(), samples.end(),
                     [this](PyObject* sample) { return to_.add_native(sample, 0); });
}

bool Collation::add_dicts(const std::vector<PyObject*>& samples, int depth) {
  PyObject* const first = samples.front();
  to_.tree_.tag(Tag::kDict);
  to_.tree_.length(static_cast<std::size_t>(PyDict_GET_SIZE(first)));
  Py_ssize_t at = 0;
  PyObject *key = nullptr, *value = nullptr;
  std::vector<PyObject*> column(samples.size());
  while (PyDict_Next(first, &at, &key, &value) != 0) {
    // Other keys may run users' code when they are looked up.
    if (!PyUnicode_CheckExact(key) && !PyLong_CheckExact(key)) return false;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      column[i] = PyDict_GetItemWithError(samples[i], key);
      if (column[i] == nullptr) {
        PyErr_Clear();
        return false;
      }
    }
    if (!to_.add_native(key, 0) || !add(column, true, depth + 1)) return false;
  }
  return true;
}

bool Collation::add_columns(const std::vector<PyObject*>& samples, Py_ssize_t width, int depth) {
  to_.tree_.length(static_cast<std::size_t>(width));
  std::vector<PyObject*> column(samples.size());
  for (Py_ssize_t i = 0; i < width; ++i) {
    for (std::size_t row = 0; row < samples.size(); ++row) {
      column[row] = PySequence_Fast_GET_ITEM(samples[row], i);
    }
    if (!add(column, false, depth + 1)) return false;
  }
  return true;
}

bool Collation::add_sequences(const std::vector<PyObject*>& samples, int depth) {
  const Py_ssize_t width = PySequence_Fast_GET_SIZE(samples.front());
  const auto as_wide = [width](PyObject* sample) { return PySequence_Fast_GET_SIZE(sample) == width; };
  if (!std::all_of(samples.begin(), samples.end(), as_wide)) return false;
  to_.tree_.tag(Tag::kList);
  return add_columns(samples, width, depth);
}

bool Collation::add_named_tuples(const std::vector<PyObject*>& samples, int depth) {
  PyTypeObject* const type = Py_TYPE(samples.front());
  if (type->tp_base != &PyTuple_Type || type->tp_dictoffset != 0 ||
      !py::hasattr(reinterpret_cast<PyObject*>(type), "_fields")) {
    return false;
  }
  to_.tree_.tag(Tag::kNamedTuple);
  to_.add_class(type);
  return add_columns(samples, PyTuple_GET_SIZE(samples.front()), depth);
}

}  // namespace torch_distinput
