// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/workers/row_view.h"

#include <algorithm>
#include <atomic>
#include <string_view>

#include "bindings/interpreter/torch_tensor.h"

namespace torch_distinput {
namespace {

namespace py = pybind11;

/// numpy's types, where the process has imported numpy.
struct NumpyTypes {
  PyObject* array;
  PyObject* memmap;
  PyObject* number;
  PyObject* boolean;
};

const NumpyTypes* numpy_types() {
  static std::atomic<const NumpyTypes*> types = nullptr;
  if (const NumpyTypes* const known = types.load(std::memory_order_acquire)) return known;
  PyObject* const numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  if (numpy == nullptr || !py::hasattr(numpy, "memmap")) return nullptr;
  const auto get = [numpy](const char* name) { return py::getattr(numpy, name).release().ptr(); };
  const auto* const made = new NumpyTypes{get("ndarray"), get("memmap"), get("number"), get("bool_")};
  types.store(made, std::memory_order_release);  // of two threads the later: both keep the same classes
  return made;
}

std::optional<at::ScalarType> dtype_of(std::string_view format) {
  static constexpr struct {
    std::string_view format;
    at::ScalarType dtype;
  } kDtypes[] = {
      {"?", at::kBool},   {"b", at::kChar},   {"B", at::kByte},          {"h", at::kShort},
      {"H", at::kUInt16}, {"i", at::kInt},    {"I", at::kUInt32},        {"l", at::kLong},
      {"L", at::kUInt64}, {"q", at::kLong},   {"Q", at::kUInt64},        {"e", at::kHalf},
      {"f", at::kFloat},  {"d", at::kDouble}, {"Zf", at::kComplexFloat}, {"Zd", at::kComplexDouble}};
  for (const auto& [name, dtype] : kDtypes) {
    if (name == format) return dtype;
  }
  return std::nullopt;
}

bool is_dense(const RowView& row, std::int64_t element) {
  std::int64_t stride = element;
  for (std::size_t dim = row.sizes.size(); dim-- > 0;) {
    if (row.sizes[dim] != 1 && row.strides[dim] != stride) return false;
    stride *= row.sizes[dim];
  }
  return true;
}

}  // namespace

bool is_plain_array(PyObject* value) {
  const NumpyTypes* const types = numpy_types();
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(value));
  return types != nullptr && (type == types->array || type == types->memmap);
}

bool is_numpy_number(PyObject* value) {
  const NumpyTypes* const types = numpy_types();
  if (types == nullptr) return false;
  return reinterpret_cast<PyObject*>(Py_TYPE(value)) == types->boolean ||
         PyType_IsSubtype(Py_TYPE(value), reinterpret_cast<PyTypeObject*>(types->number)) != 0;
}

std::optional<RowView> row_of_tensor(PyObject* value) {
  const at::Tensor& tensor = unwrap_tensor(value);
  if (tensor.layout() != at::kStrided || !tensor.device().is_cpu() || tensor.requires_grad() ||
      tensor.is_conj() || tensor.is_neg() || tensor.is_quantized() || tensor.is_nested()) {
    return std::nullopt;
  }
  RowView row;
  row.data = static_cast<const char*>(tensor.const_data_ptr());
  row.dtype = tensor.scalar_type();
  row.sizes = tensor.sizes().vec();
  row.dense = tensor.is_contiguous();
  if (!row.dense) {
    row.strides = tensor.strides().vec();
    for (std::int64_t& stride : row.strides) stride *= tensor.element_size();
  }
  return row;
}

std::optional<RowView> row_of_array(PyObject* value) {
  // The view is released with the owner, not before: it keeps numpy from moving the memory.
  auto* const view = new Py_buffer{};
  if (PyObject_GetBuffer(value, view, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    delete view;
    return std::nullopt;
  }
  RowView row;
  row.owner = py::capsule(view, [](void* held) {
    PyBuffer_Release(static_cast<Py_buffer*>(held));
    delete static_cast<Py_buffer*>(held);
  });
  const std::optional<at::ScalarType> dtype = dtype_of(view->format == nullptr ? "B" : view->format);
  if (!dtype.has_value()) return std::nullopt;
  row.data = static_cast<const char*>(view->buf);
  row.dtype = *dtype;
  row.sizes.assign(view->shape, view->shape + view->ndim);
  row.strides.assign(view->strides, view->strides + view->ndim);
  if (std::any_of(row.strides.begin(), row.strides.end(),
                  [view](std::int64_t stride) { return stride < 0 || stride % view->itemsize != 0; })) {
    return std::nullopt;
  }
  row.dense = is_dense(row, view->itemsize);
  return row;
}

}  // namespace torch_distinput
