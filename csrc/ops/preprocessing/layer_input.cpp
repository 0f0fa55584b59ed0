// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/preprocessing/layer_input.h"

#include <utility>

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sub.h>
#include <c10/util/Exception.h>

namespace torch_distinput::preprocessing {

at::Tensor offsets_from_zero(const at::Tensor& offsets) {
  at::Tensor host = offsets.cpu().to(at::kLong).contiguous();
  const std::int64_t first = host.const_data_ptr<std::int64_t>()[0];
  return first == 0 ? host : at::sub(host, first);
}

LayerInput::LayerInput(const Leaf& leaf, const at::Tensor& row_offsets, std::string_view layer)
    : layer_(layer) {
  if (const auto* const strings = std::get_if<Bytes>(&leaf)) {
    text_ = strings;
  } else if (const auto* const dense = std::get_if<at::Tensor>(&leaf)) {
    numbers_ = *dense;
  } else if (const auto* const ragged = std::get_if<Ragged>(&leaf)) {
    const at::Tensor bounds = ragged->offsets.cpu();
    const auto* const data = bounds.const_data_ptr<std::int64_t>();
    const std::int64_t rows = bounds.size(0) - 1;
    numbers_ = ragged->values.narrow(0, data[0], data[rows] - data[0]);
    offsets_ = offsets_from_zero(bounds);
  } else if (const auto* const sparse = std::get_if<Sparse>(&leaf)) {
    sparse_ = sparse->value.coalesce();
    numbers_ = sparse_->_values();
  } else {
    TORCH_CHECK_TYPE(false, layer, ": the input must be numbers or strings, but is a ", leaf_kind(leaf),
                     " leaf.");
  }
  if (row_offsets.defined()) offsets_ = offsets_from_zero(row_offsets);
  if (numbers_.defined() && !numbers_.is_cpu()) device_ = numbers_.device();
}

at::Tensor LayerInput::numbers(c10::ScalarType dtype) const { return numbers_.cpu().to(dtype).contiguous(); }

at::Tensor LayerInput::empty_indices() const {
  return is_text() ? at::empty(text_->shape, at::kLong) : at::empty(numbers_.sizes(), at::kLong);
}

std::int64_t LayerInput::count() const { return is_text() ? text_->count() : numbers_.numel(); }

Leaf LayerInput::finish(const at::Tensor& indices, const VectorOptions& options,
                        const at::Tensor& item_weights) const {
  if (sparse_) {
    TORCH_CHECK_TYPE(options.output.mode == OutputMode::kInt, layer_,
                     ": a sparse input works with output_mode 'int' only; give dense or ragged rows.");
    const at::Tensor values = indices.to(options.output.dtype).to(numbers_.device());
    return Sparse{at::_sparse_coo_tensor_unsafe(sparse_->_indices(), values, sparse_->sizes(),
                                                values.options().layout(at::kSparse),
                                                /*is_coalesced=*/true)};
  }
  Leaf result = encode({indices, offsets_}, options, item_weights, layer_);
  if (!device_) return result;
  if (auto* const dense = std::get_if<at::Tensor>(&result)) return dense->to(*device_);
  if (auto* const sparse = std::get_if<Sparse>(&result)) return Sparse{sparse->value.to(*device_)};
  auto& ragged = std::get<Ragged>(result);
  return Ragged{ragged.values.to(*device_), ragged.offsets.to(*device_)};
}

}  // namespace torch_distinput::preprocessing
