// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "torch_distinput/element.h"

namespace torch_distinput {

/// The dense host tensors of an element that travel to a device. Strings, objects and datasets stay.
struct Freight {
  std::vector<at::Tensor> tensors;        ///< contiguous, in host memory, in the order of the leaves
  std::vector<std::size_t> whole_leaves;  ///< numbers of those that are leaves; others are parts of one
};

/// Sparse leaves give indices and values, ragged ones the values of their own rows and offsets from 0. Throws
/// c10::TypeError for a leaf that is not in host memory, by name.
Freight freight_of(const Element& element);

/// `element` with the tensors of `freight_of` replaced by `arrived`, which are as many.
Element with_freight(const Element& element, const std::vector<at::Tensor>& arrived);

/// What is copied at once.
struct Parcel {
  struct Piece {
    std::size_t tensor;  ///< number in the freight
    std::size_t offset;  ///< bytes
  };
  std::vector<Piece> pieces;
  std::size_t bytes = 0;
  /// Where the pieces lie in this order already; null: they have to be put together.
  const void* lies_at = nullptr;
};

/// All tensors of at most `kPackedBytes` in one parcel, each larger one in its own. Tensors without data are
/// in none.
std::vector<Parcel> pack(const Freight& freight);

/// Copies the pieces of `parcel` to their places behind `to`.
void put_together(const Parcel& parcel, const Freight& freight, char* to);

}  // namespace torch_distinput
