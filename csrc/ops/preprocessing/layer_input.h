// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "kernels/preprocessing/encode.h"
#include "torch_distinput/element.h"

namespace torch_distinput::preprocessing {

/// The items of a layer's input, whatever its kind, and how their indices are put together to a result.
class LayerInput {
 public:
  /// Reads `leaf` (dense in any memory, strings, ragged, or sparse for mode kInt). `row_offsets` as in
  /// `Layer::call`. Throws c10::TypeError naming `layer` for other kinds of leaf.
  LayerInput(const Leaf& leaf, const at::Tensor& row_offsets, std::string_view layer);

  /// Whether the items are strings; else they are numbers.
  bool is_text() const noexcept { return text_ != nullptr; }
  const Bytes& text() const noexcept { return *text_; }
  /// The numbers in host memory, contiguous, as `dtype`; their shape is that of the indices.
  at::Tensor numbers(c10::ScalarType dtype) const;
  c10::ScalarType number_type() const { return numbers_.scalar_type(); }
  /// A tensor for one index for each item.
  at::Tensor empty_indices() const;
  std::int64_t count() const;
  /// Offsets of ragged rows; undefined for other inputs.
  const at::Tensor& offsets() const noexcept { return offsets_; }

  /// The result for the items' indices, on the device of the input.
  Leaf finish(const at::Tensor& indices, const VectorOptions& options,
              const at::Tensor& item_weights = {}) const;

 private:
  std::string layer_;
  const Bytes* text_ = nullptr;
  at::Tensor numbers_;
  at::Tensor offsets_;
  std::optional<at::Tensor> sparse_;
  std::optional<at::Device> device_;
};

/// The strings of a leaf, which is held by others, without a look at its tensors for each string.
class StringViews {
 public:
  explicit StringViews(const Bytes& text)
      : data_(static_cast<const char*>(text.values.const_data_ptr())), count_(text.count()) {
    if (text.offsets.defined()) {
      bounds_ = static_cast<const std::int64_t*>(text.offsets.const_data_ptr());
    } else {
      whole_[1] = static_cast<std::int64_t>(text.values.nbytes());
    }
  }
  StringViews(const StringViews&) = delete;
  StringViews& operator=(const StringViews&) = delete;

  std::int64_t count() const noexcept { return count_; }
  std::string_view operator[](std::int64_t index) const noexcept {
    return {data_ + bounds_[index], static_cast<std::size_t>(bounds_[index + 1] - bounds_[index])};
  }

 private:
  const char* data_;
  std::int64_t count_;
  std::int64_t whole_[2] = {0, 0};  ///< the bounds of a single string
  const std::int64_t* bounds_ = whole_;
};

/// `offsets` starting at 0, in host memory.
at::Tensor offsets_from_zero(const at::Tensor& offsets);

}  // namespace torch_distinput::preprocessing
