// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/leaves/tensor_leaf.h"

#include <utility>

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/sub.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include "bindings/interpreter/python_error.h"
#include "bindings/interpreter/torch_tensor.h"

namespace py = pybind11;

namespace torch_distinput {
namespace {

/// `torch.nested.nested_tensor_from_jagged`, and the layout `torch.jagged`.
PyObject* from_jagged = nullptr;
PyObject* jagged = nullptr;

/// A tensor of the same data that has no Python object. To free a tensor that has one takes the GIL, so
/// threads of the library would contend for it row by row.
at::Tensor unknown_to_python(const at::Tensor& tensor) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      /*version_counter=*/c10::VariableVersion(0), /*allow_tensor_metadata_change=*/true));
}

at::Tensor part(py::handle value, const char* method) {
  const py::object tensor = value.attr(method)();
  // Bytes are copied as they lie in memory, so lazy conjugates and negatives are computed first.
  return unknown_to_python(unwrap_tensor(tensor.ptr()).resolve_conj().resolve_neg());
}

void require_host(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu()) refuse_leaf("a tensor on " + tensor.device().str());
}

Ragged from_nested(py::handle value) {
  if (value.attr("layout").ptr() != jagged)
    refuse_leaf("a nested tensor of another layout than torch.jagged (pass layout=torch.jagged)");
  if (value.attr("_ragged_idx").cast<std::int64_t>() != 1)
    refuse_leaf("a nested tensor whose ragged dim is not dim 1 (transpose it back)");
  // A tensor that has lengths may have gaps between its rows.
  const py::object whole = value.attr("lengths")().is_none() ? py::reinterpret_borrow<py::object>(value)
                                                             : value.attr("contiguous")();
  at::Tensor values = part(whole, "values");
  require_host(values);
  // A copy that the user cannot change, because rows are cut at the offsets without a check.
  return {std::move(values),
          part(whole, "offsets").to(at::kLong, /*non_blocking=*/false, /*copy=*/true).contiguous()};
}

Sparse from_sparse(const at::Tensor& tensor) {
  require_host(tensor);
  return {unknown_to_python(tensor)};
}

}  // namespace

void load_tensor_types() {
  const auto keep = [](const py::object& object) { return py::object(object).release().ptr(); };
  const auto torch = py::module_::import("torch");
  from_jagged = keep(torch.attr("nested").attr("nested_tensor_from_jagged"));
  jagged = keep(torch.attr("jagged"));
}

void refuse_leaf(const std::string& what) {
  C10_THROW_ERROR(TypeError, "is " + what +
                                 ", which cannot be a leaf; leaves are CPU tensors (dense, jagged or COO), "
                                 "numpy arrays, numbers, strings or lists of them.");
}

Leaf tensor_leaf_from_python(PyObject* value) {
  const at::Tensor& tensor = unwrap_tensor(value);
  if (tensor.is_nested()) return from_nested(value);
  if (tensor.unsafeGetTensorImpl()->is_python_dispatch())
    refuse_leaf(std::string("a ") + Py_TYPE(value)->tp_name);
  if (tensor.layout() == at::kSparse) return from_sparse(tensor);
  require_host(tensor);
  if (tensor.layout() != at::kStrided) refuse_leaf("a tensor that is neither dense nor COO");
  if (tensor.is_quantized()) refuse_leaf("a quantized tensor");
  return unknown_to_python(tensor.resolve_conj().resolve_neg());
}

namespace {

/// The tensor as this thread would have made it. Whether a tensor is an inference tensor is decided where it
/// is made, but a pipeline makes tensors ahead of the consumer on any thread. So within
/// `torch.inference_mode` the consumer gets inference tensors, as from an op, and elsewhere normal ones.
at::Tensor as_made_here(at::Tensor&& tensor) {
  if (tensor.is_inference() == c10::InferenceMode::is_enabled()) return std::move(tensor);
  if (tensor.is_sparse()) {
    return at::_sparse_coo_tensor_unsafe(as_made_here(tensor._indices()), as_made_here(tensor._values()),
                                         tensor.sizes(), tensor.options(), tensor.is_coalesced());
  }
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(tensor.storage()), tensor.key_set(),
                                                             tensor.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                    tensor.storage_offset());
  return made;
}

}  // namespace

py::object dense_to_python(at::Tensor&& tensor) { return wrap_tensor(as_made_here(std::move(tensor))); }

namespace {

py::object jagged_of(at::Tensor values, at::Tensor offsets) {
  const auto made = py::reinterpret_steal<py::object>(
      PyObject_CallFunctionObjArgs(from_jagged, dense_to_python(std::move(values)).ptr(),
                                   dense_to_python(std::move(offsets)).ptr(), nullptr));
  if (!made) throw_python();
  return made;
}

}  // namespace

py::object ragged_to_python(const Ragged& ragged) {
  if (!ragged.offsets.is_cpu()) return jagged_of(ragged.values, ragged.offsets.alias());
  const auto* const bounds = static_cast<const std::int64_t*>(ragged.offsets.const_data_ptr());
  const std::int64_t rows = ragged.offsets.size(0) - 1;
  at::Tensor values = ragged.values.narrow(0, bounds[0], bounds[rows] - bounds[0]);
  at::Tensor offsets = bounds[0] == 0 ? ragged.offsets.alias() : at::sub(ragged.offsets, bounds[0]);
  return jagged_of(std::move(values), std::move(offsets));
}

py::object sparse_to_python(Sparse&& sparse) { return dense_to_python(std::move(sparse.value)); }

}  // namespace torch_distinput
