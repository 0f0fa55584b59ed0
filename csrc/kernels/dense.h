// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/names.h"
#include "torch_distinput/element.h"
#include "torch_distinput/structure.h"

namespace torch_distinput {

/// Throws c10::ValueError naming `op` unless all `elements` have one structure.
void check_structures(std::span<const Element> elements, std::string_view op);

/// Leaf `leaf`, a dense tensor in host memory. Throws c10::TypeError for any other, naming `op`, the leaf
/// and what `op` cannot do with it: `verb` ("stack").
const at::Tensor& dense_leaf(const Element& element, std::size_t leaf, std::string_view op,
                             std::string_view verb);

/// Writes the items of `tensor` to `to`, in row-major order whatever its strides. Unlike `Tensor::copy_` it
/// never starts threads. REQUIRES: a dense tensor in host memory, room for `tensor.nbytes()`.
void copy_items(const at::Tensor& tensor, char* to);

/// A tensor on rows [begin, end) of `tensor`: same memory, but with a version counter of its own.
/// REQUIRES: at least one dim.
at::Tensor share_rows(const at::Tensor& tensor, std::int64_t begin, std::int64_t end);

/// A tensor on row `row` of `tensor`, without dim 0. Otherwise as `share_rows`.
at::Tensor share_row(const at::Tensor& tensor, std::int64_t row);

}  // namespace torch_distinput
