// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/workers/decoder.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "bindings/interpreter/state_guard.h"
#include "bindings/interpreter/torch_tensor.h"

namespace torch_distinput {

namespace py = pybind11;

namespace {

/// Tensors of no more dimensions are made without memory for their sizes.
constexpr unsigned kUsualDims = 5;

py::object owned(PyObject* object) {
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

py::bytes bytes_of(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

py::object Decoder::next() {
  const Tag tag = tree_.tag();
  switch (tag) {
    case Tag::kNone:
      return py::none();
    case Tag::kTrue:
      return py::bool_(true);
    case Tag::kFalse:
      return py::bool_(false);
    case Tag::kInt:
      return owned(PyLong_FromLongLong(tree_.number<std::int64_t>()));
    case Tag::kFloat:
      return owned(PyFloat_FromDouble(tree_.number<double>()));
    case Tag::kStr: {
      const std::string_view text = tree_.string();
      return owned(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr));
    }
    case Tag::kBytes:
      return bytes_of(tree_.string());
    case Tag::kInts:
      return ints();
    case Tag::kNones:
    case Tag::kList: {
      const auto size = static_cast<Py_ssize_t>(tree_.length());
      py::object list = owned(PyList_New(size));
      for (Py_ssize_t i = 0; i < size; ++i) {
        py::object item = tag == Tag::kList ? next() : py::none();
        PyList_SET_ITEM(list.ptr(), i, item.release().ptr());
      }
      return list;
    }
    case Tag::kTuple: {
      const auto size = static_cast<Py_ssize_t>(tree_.length());
      py::object tuple = owned(PyTuple_New(size));
      for (Py_ssize_t i = 0; i < size; ++i) PyTuple_SET_ITEM(tuple.ptr(), i, next().release().ptr());
      return tuple;
    }
    case Tag::kDict: {
      py::object dict = owned(PyDict_New());
      for (std::size_t left = tree_.length(); left > 0; --left) {
        const py::object key = next();
        const py::object value = next();
        if (PyDict_SetItem(dict.ptr(), key.ptr(), value.ptr()) != 0) throw py::error_already_set();
      }
      return dict;
    }
    case Tag::kNamedTuple:
      return named_tuple();
    case Tag::kTensor:
      return tensor();
    case Tag::kPickled:
      return pickled();
  }
  throw std::runtime_error("workers: a message has an unknown tag");
}

py::object Decoder::ints() {
  const std::size_t size = tree_.length();
  const char* from = tree_.bytes(size * sizeof(std::int64_t)).data();
  py::object list = owned(PyList_New(static_cast<Py_ssize_t>(size)));
  for (std::size_t i = 0; i < size; ++i, from += sizeof(std::int64_t)) {
    std::int64_t number = 0;
    std::memcpy(&number, from, sizeof(number));
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i),
                    owned(PyLong_FromLongLong(number)).release().ptr());
  }
  return list;
}

/// Classes are unpickled once.
py::object Decoder::class_of(std::string_view text) {
  static auto* const classes = new std::map<std::string, py::object, std::less<>>;
  {
    const StateGuard guard;
    const auto known = classes->find(text);
    if (known != classes->end()) return known->second;
  }
  py::object type = unpickle_(bytes_of(text), py::none());
  const StateGuard guard;
  return classes->try_emplace(std::string(text), std::move(type)).first->second;
}

py::object Decoder::named_tuple() {
  const py::object type = class_of(tree_.string());
  py::tuple values(tree_.length());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = next();
  return owned(PyObject_Call(type.ptr(), values.ptr(), nullptr));
}

py::object Decoder::tensor() {
  const auto dtype = static_cast<at::ScalarType>(tree_.number<std::int8_t>());
  const std::size_t dims = tree_.length();
  c10::SmallVector<std::int64_t, kUsualDims> sizes(dims), strides(dims);
  for (std::int64_t& size : sizes) size = tree_.number<std::int64_t>();
  for (std::int64_t& stride : strides) stride = tree_.number<std::int64_t>();
  const auto bytes = tree_.number<std::uint64_t>();
  const auto offset = tree_.number<std::uint64_t>();
  at::DataPtr memory = bytes > 0 ? hold(offset) : at::DataPtr(nullptr, at::kCPU);
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(memory), nullptr, false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return wrap_tensor(std::move(tensor));
}

c10::DataPtr Decoder::hold(std::uint64_t offset) const {
  char* const data = beside_.get() + offset;
  if (device_reads_) return device_reads_(data);
  const auto release = [](void* context) { delete static_cast<std::shared_ptr<char>*>(context); };
  return {data, new std::shared_ptr<char>(beside_), release, at::kCPU};
}

py::object Decoder::pickled() {
  const py::bytes text = bytes_of(tree_.string());
  const std::size_t count = tree_.length();
  if (count == 0) return unpickle_(text, py::none());
  py::list buffers;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bytes = tree_.number<std::uint64_t>();
    const auto offset = tree_.number<std::uint64_t>();
    char* const data = beside_.get() + offset;
    if (device_reads_) {
      buffers.append(py::bytearray(data, bytes));
    } else {
      buffers.append(py::cast(SharedBuffer{{beside_, data}, bytes}));
    }
  }
  return unpickle_(text, buffers);
}

}  // namespace torch_distinput
