// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/workers/encoder.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string_view>

#include "bindings/interpreter/state_guard.h"
#include "bindings/interpreter/torch_tensor.h"
#include "bindings/workers/copy_past_caches.h"

namespace torch_distinput {
namespace {

/// Alignment of tensors in a message; equals kPackedAlignment, so a batch can be copied to a device without
/// repacking.
constexpr std::uint64_t kAlignment = 256;
constexpr int kDeepest = 60;

/// A batch from this size on is no longer cached when the consumer reads it, because several are under way.
/// Its rows of at least `kLargeRow` bytes are written past the caches.
constexpr std::uint64_t kLargeBatch = std::uint64_t{4} << 20;
constexpr std::uint64_t kLargeRow = 4096;

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Copies `count` elements of type T, `stride` bytes from each other, to `target`, one after the other.
template <class T>
void copy_elements(char* target, const char* source, std::int64_t count, std::int64_t stride) {
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(target + i * sizeof(T), source + i * stride, sizeof(T));
}

void copy_elements(char* target, const char* source, std::int64_t count, std::int64_t stride,
                   std::int64_t element) {
  switch (element) {
    case 1:
      return copy_elements<std::uint8_t>(target, source, count, stride);
    case 2:
      return copy_elements<std::uint16_t>(target, source, count, stride);
    case 4:
      return copy_elements<std::uint32_t>(target, source, count, stride);
    case 8:
      return copy_elements<std::uint64_t>(target, source, count, stride);
    default:
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(target + i * element, source + i * stride, static_cast<std::size_t>(element));
      }
  }
}

/// Copies `sizes` elements at `source` with `strides`, in bytes, to `target`, one after the other.
char* copy_strided(char* target, const char* source, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                   std::int64_t element) {
  if (sizes.empty()) {
    std::memcpy(target, source, static_cast<std::size_t>(element));
    return target + element;
  }
  if (sizes.size() == 1) {
    const std::int64_t bytes = sizes[0] * element;
    if (strides[0] == element) {
      std::memcpy(target, source, static_cast<std::size_t>(bytes));
    } else {
      copy_elements(target, source, sizes[0], strides[0], element);
    }
    return target + bytes;
  }
  for (std::int64_t i = 0; i < sizes[0]; ++i) {
    target = copy_strided(target, source + i * strides[0], sizes.slice(1), strides.slice(1), element);
  }
  return target;
}

}  // namespace

void Encoder::rewind(const Mark& mark) {
  tree_.cut(mark.tree);
  copies_.resize(mark.copies);
  bytes_ = mark.bytes;
}

void Encoder::add(py::handle value) {
  const Mark before = mark();
  met_.clear();
  if (add_native(value.ptr(), 0)) return;
  rewind(before);
  if (py::isinstance<Collated>(value)) return add(std::move(value.cast<Collated&>().encoder));
  add_pickled(value);
}

void Encoder::add(Encoder other) {
  // Offsets in the other's tree count from its own first byte.
  if (bytes_ != 0) throw std::logic_error("workers: memory beside the tree is in use");
  tree_.bytes(other.tree_.text());
  bytes_ = other.bytes_;
  copies_ = std::move(other.copies_);
  owners_ = std::move(other.owners_);
  numbers_ = std::move(other.numbers_);
}

bool Encoder::add_native(PyObject* value, int depth) {
  if (depth > kDeepest) return false;
  PyTypeObject* const type = Py_TYPE(value);
  if (value == Py_None) {
    tree_.tag(Tag::kNone);
  } else if (type == &PyBool_Type) {
    tree_.tag(value == Py_True ? Tag::kTrue : Tag::kFalse);
  } else if (type == &PyLong_Type) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0) return false;
    tree_.tag(Tag::kInt);
    tree_.number<std::int64_t>(number);
  } else if (type == &PyFloat_Type) {
    tree_.tag(Tag::kFloat);
    tree_.number(PyFloat_AS_DOUBLE(value));
  } else if (type == &PyUnicode_Type) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text == nullptr) {
      PyErr_Clear();  // a lone surrogate
      return false;
    }
    tree_.tag(Tag::kStr);
    tree_.string({text, static_cast<std::size_t>(size)});
  } else if (type == &PyBytes_Type) {
    tree_.tag(Tag::kBytes);
    tree_.string({PyBytes_AS_STRING(value), static_cast<std::size_t>(PyBytes_GET_SIZE(value))});
  } else if (type == &PyList_Type) {
    return is_first(value) && add_list(value, depth);
  } else if (type == &PyTuple_Type) {
    tree_.tag(Tag::kTuple);
    return add_values(value, depth);
  } else if (type == &PyDict_Type) {
    return is_first(value) && add_dict(value, depth);
  } else if (is_plain_tensor(value)) {
    return beside_ && is_first(value) && add_tensor(unwrap_tensor(value));
  } else if (PyTuple_Check(value)) {
    return add_named_tuple(value, depth);
  } else if (!beside_ && PyMemoryView_Check(value)) {
    return add_int_memory(*PyMemoryView_GET_BUFFER(value));
  } else {
    return false;
  }
  return true;
}

bool Encoder::add_list(PyObject* list, int depth) {
  const Py_ssize_t size = PyList_GET_SIZE(list);
  if (size == 0) {
    tree_.tag(Tag::kList);
    tree_.length(0);
    return true;
  }
  PyObject* const first = PyList_GET_ITEM(list, 0);
  PyObject* const* const items = PySequence_Fast_ITEMS(list);
  if (first == Py_None && std::all_of(items, items + size, [](PyObject* item) { return item == Py_None; })) {
    tree_.tag(Tag::kNones);
    tree_.length(static_cast<std::size_t>(size));
    return true;
  }
  if (PyLong_CheckExact(first) && add_ints(items, static_cast<std::size_t>(size))) return true;
  tree_.tag(Tag::kList);
  return add_values(list, depth);
}

/// Appends a list of `items`; returns false, with nothing appended, where one of them is no int64.
bool Encoder::add_ints(PyObject* const* items, std::size_t size) {
  const std::size_t before = tree_.text().size();
  tree_.tag(Tag::kInts);
  tree_.length(size);
  char* next = tree_.space(size * sizeof(std::int64_t));
  const bool all = std::all_of(items, items + size, [&next](PyObject* item) {
    if (!PyLong_CheckExact(item)) return false;
    int overflow = 0;
    const std::int64_t number = PyLong_AsLongLongAndOverflow(item, &overflow);
    std::memcpy(next, &number, sizeof(number));
    next += sizeof(number);
    return overflow == 0;
  });
  if (!all) tree_.cut(before);
  return all;
}

bool Encoder::add_int_memory(const Py_buffer& memory) {
  const std::string_view format = memory.format == nullptr ? "B" : memory.format;
  if (memory.ndim != 1 || (format != "l" && format != "q") || PyBuffer_IsContiguous(&memory, 'C') == 0) {
    return false;
  }
  tree_.tag(Tag::kInts);
  tree_.length(static_cast<std::size_t>(memory.len) / sizeof(std::int64_t));
  tree_.bytes({static_cast<const char*>(memory.buf), static_cast<std::size_t>(memory.len)});
  return true;
}

bool Encoder::add_values(PyObject* sequence, int depth) {
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence);
  tree_.length(static_cast<std::size_t>(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    if (!add_native(PySequence_Fast_GET_ITEM(sequence, i), depth + 1)) return false;
  }
  return true;
}

bool Encoder::add_dict(PyObject* dict, int depth) {
  tree_.tag(Tag::kDict);
  tree_.length(static_cast<std::size_t>(PyDict_GET_SIZE(dict)));
  Py_ssize_t at = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &at, &key, &value) != 0) {
    if (!add_native(key, depth + 1) || !add_native(value, depth + 1)) return false;
  }
  return true;
}

/// Classes are pickled once: by reference, which needs an import at the destination.
bool Encoder::add_class(PyTypeObject* type) {
  static auto* const pickled = new std::map<PyTypeObject*, std::string>;
  {
    const StateGuard guard;
    const auto known = pickled->find(type);
    if (known != pickled->end()) {
      tree_.string(known->second);
      return true;
    }
  }
  const auto object = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(type));
  const auto text = pickle_(object, py::none()).cast<std::string>();
  object.inc_ref();  // so that no other object gets its address
  tree_.string(text);
  const StateGuard guard;
  pickled->emplace(type, text);
  return true;
}

bool Encoder::add_named_tuple(PyObject* value, int depth) {
  PyTypeObject* const type = Py_TYPE(value);
  const py::handle object(reinterpret_cast<PyObject*>(type));
  if (type->tp_base != &PyTuple_Type || type->tp_dictoffset != 0 || !py::hasattr(object, "_fields")) {
    return false;
  }
  tree_.tag(Tag::kNamedTuple);
  add_class(type);
  if (depth == 0 && py::hasattr(object, "fields_are_values")) {
    const Py_ssize_t size = PyTuple_GET_SIZE(value);
    tree_.length(static_cast<std::size_t>(size));
    for (Py_ssize_t i = 0; i < size; ++i) add(PyTuple_GET_ITEM(value, i));
    return true;
  }
  return add_values(value, depth);
}

bool Encoder::add_tensor(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || !tensor.device().is_cpu() || tensor.requires_grad() ||
      tensor.is_conj() || tensor.is_neg() || tensor.is_quantized() || tensor.is_nested() ||
      tensor.is_inference() || !tensor.is_non_overlapping_and_dense()) {
    return false;
  }
  if (!is_first(tensor.storage().unsafeGetStorageImpl())) return false;
  const std::uint64_t bytes = tensor.nbytes();
  const std::uint64_t offset = reserve(bytes);
  tensor_head(tensor.scalar_type(), tensor.sizes(), tensor.strides(), bytes, offset);
  keep(wrap_tensor(tensor));
  if (bytes > 0) copy_rows({offset, bytes, {static_cast<const char*>(tensor.const_data_ptr())}, {}, {}, 1});
  return true;
}

void Encoder::tensor_head(at::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                          std::uint64_t bytes, std::uint64_t offset) {
  tree_.tag(Tag::kTensor);
  tree_.number(static_cast<std::int8_t>(dtype));
  tree_.length(sizes.size());
  for (const std::int64_t size : sizes) tree_.number(size);
  for (const std::int64_t stride : strides) tree_.number(stride);
  tree_.number(bytes);
  tree_.number(offset);
}

std::uint64_t Encoder::reserve(std::uint64_t bytes) {
  const std::uint64_t offset = bytes_;
  bytes_ = aligned(bytes_ + bytes);
  return offset;
}

void Encoder::add_pickled(py::handle value) {
  if (!beside_) {
    const auto text = py::reinterpret_borrow<py::bytes>(pickle_(value, py::none()));
    tree_.tag(Tag::kPickled);
    tree_.string(std::string_view(text));
    tree_.length(0);
    return;
  }
  py::list buffers;
  const auto text = py::reinterpret_borrow<py::bytes>(pickle_(value, buffers));
  tree_.tag(Tag::kPickled);
  tree_.string(std::string_view(text));
  tree_.length(buffers.size());
  for (const py::handle buffer : buffers) {
    buffers_.push_back(py::reinterpret_borrow<py::buffer>(buffer).request());
    const auto bytes = static_cast<std::uint64_t>(buffers_.back().size * buffers_.back().itemsize);
    const std::uint64_t offset = reserve(bytes);
    tree_.number(bytes);
    tree_.number(offset);
    if (bytes > 0) copy_rows({offset, bytes, {static_cast<const char*>(buffers_.back().ptr)}, {}, {}, 1});
  }
}

void Encoder::copy_to(char* target) const {
  const bool leaves_caches = bytes_ >= kLargeBatch;
  for (const RowsCopy& copy : copies_) {
    char* next = target + copy.offset;
    for (const char* const row : copy.rows) {
      if (!copy.strides.empty()) {
        copy_strided(next, row, copy.sizes, copy.strides, copy.element);
      } else if (leaves_caches && copy.row_bytes >= kLargeRow) {
        copy_past_caches(next, row, copy.row_bytes);
      } else {
        std::memcpy(next, row, copy.row_bytes);
      }
      next += copy.row_bytes;
    }
  }
}

}  // namespace torch_distinput
