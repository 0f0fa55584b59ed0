// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <ATen/core/Tensor.h>

#include "torch_distinput/element.h"

namespace torch_distinput {

/// The host tensors of an element that are copied to a device, without strings, objects and datasets.
struct HostTensors {
  std::vector<at::Tensor> tensors;        ///< contiguous, in host memory, in the order of the leaves
  std::vector<std::size_t> whole_leaves;  ///< indices of tensors that are a leaf; others are parts of a leaf
};

/// The tensors of `element`. A sparse leaf yields its indices and values; a ragged one the values of its own
/// rows and offsets that begin with 0. Throws c10::TypeError, which names the leaf, for one outside host
/// memory.
HostTensors host_tensors_of(const Element& element);

/// `element` with the tensors of `host_tensors_of(element)` replaced by `arrived`, as many in the same order.
Element with_host_tensors(const Element& element, const std::vector<at::Tensor>& arrived);

/// Memory that one copy brings to the device: one or more tensors at aligned offsets.
struct CopyBlock {
  struct Piece {
    std::size_t tensor;  ///< index in `HostTensors::tensors`
    std::size_t offset;  ///< bytes from the start of the block
  };
  std::vector<Piece> pieces;
  std::size_t bytes = 0;  ///< of the block, with the gaps between pieces
  /// Host memory that has this layout, valid as long as the tensors; null: `put_together` must make it.
  const void* lies_at = nullptr;
};

/// The blocks of `tensors`: all tensors of up to `kPackedBytes` share one, each larger one has its own.
/// Tensors of 0 bytes are in none.
std::vector<CopyBlock> pack(const HostTensors& tensors);

/// Copies the pieces of `copy_block` to their offsets from `to`, which has room for `copy_block.bytes`.
void put_together(const CopyBlock& copy_block, const HostTensors& tensors, char* to);

}  // namespace torch_distinput
