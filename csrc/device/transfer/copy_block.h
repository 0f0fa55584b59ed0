// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "torch_distinput/element.h"

namespace torch_distinput {

/// The dense host tensors of an element that travel to a device. Strings, objects and datasets stay.
struct HostTensors {
  std::vector<at::Tensor> tensors;        ///< contiguous, in host memory, in the order of the leaves
  std::vector<std::size_t> whole_leaves;  ///< numbers of those that are leaves; others are parts of one
};

/// Sparse leaves give indices and values, ragged ones the values of their own rows and offsets from 0. Throws
/// c10::TypeError for a leaf that is not in host memory, by name.
HostTensors host_tensors_of(const Element& element);

/// `element` with the tensors of `host_tensors_of` replaced by `arrived`, which are as many.
Element with_host_tensors(const Element& element, const std::vector<at::Tensor>& arrived);

/// What is copied at once.
struct CopyBlock {
  struct Piece {
    std::size_t tensor;  ///< number in the tensors
    std::size_t offset;  ///< bytes
  };
  std::vector<Piece> pieces;
  std::size_t bytes = 0;
  /// Where the pieces lie in this order already; null: they have to be put together.
  const void* lies_at = nullptr;
};

/// All tensors of at most `kPackedBytes` in one copy block, each larger one in its own. Tensors without data
/// are in none.
std::vector<CopyBlock> pack(const HostTensors& tensors);

/// Copies the pieces of `copy block` to their places after `to`.
void put_together(const CopyBlock& copy_block, const HostTensors& tensors, char* to);

}  // namespace torch_distinput
