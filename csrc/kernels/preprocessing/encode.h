// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "torch_distinput/element.h"
#include "torch_distinput/preprocessing.h"

namespace torch_distinput::preprocessing {

/// An index that no entry of a vector stands for.
inline constexpr std::int64_t kNoIndex = -1;

/// Indices with the shape of a layer's input.
struct Indices {
  at::Tensor values;   ///< int64, contiguous, in host memory
  at::Tensor offsets;  ///< defined: row i is `values[offsets[i], offsets[i + 1])`; int64, starting at 0
};

/// How indices are written as vectors.
struct VectorOptions {
  OutputOptions output;
  std::int64_t depth = 0;   ///< entries of a vector
  at::Tensor weights = {};  ///< kTfIdf: float32, one for each entry
};

/// `indices` as `options.output` asks. A scalar counts as one row of one index. kOneHot: [..., depth], where
/// a last dim of 1 of the input is dropped; the other modes reduce the last dim. Indices outside [0, depth)
/// are left out. `item_weights`: kCount: float32, one for each index; undefined: 1. Throws c10::ValueError
/// naming `layer` for sparse vectors of ragged rows.
Leaf encode(const Indices& indices, const VectorOptions& options, const at::Tensor& item_weights,
            std::string_view layer);

}  // namespace torch_distinput::preprocessing
