// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "core/names.h"
#include "torch_distinput/element.h"
#include "torch_distinput/structure.h"

namespace torch_distinput {

/// \file
/// Copies and views of dense leaves. All functions are safe from any thread.

/// Throws c10::ValueError naming `op` unless all `elements` have the same structure. REQUIRES: at least one.
void check_structures(std::span<const Element> elements, std::string_view op);

/// Returns leaf `leaf`, which must be a dense tensor in host memory; valid as long as `element`. Throws
/// c10::TypeError for any other leaf; the message says that `op` cannot `verb` ("stack") it.
const at::Tensor& dense_leaf(const Element& element, std::size_t leaf, std::string_view op,
                             std::string_view verb);

/// Writes the items of `tensor` to `to` in row-major order, whatever its strides. Unlike `Tensor::copy_`, it
/// never starts threads. Errors as `host_data`. REQUIRES: a dense tensor in host memory, and room for
/// `tensor.nbytes()` bytes.
void copy_items(const at::Tensor& tensor, char* to);

/// Returns a tensor on rows [begin, end) of `tensor`. It shares the storage, but has its own version counter:
/// a write to it does not make autograd see a change of `tensor`. REQUIRES: at least one dim.
at::Tensor share_rows(const at::Tensor& tensor, std::int64_t begin, std::int64_t end);

/// Returns a tensor on row `row` of `tensor`, without dim 0; otherwise as `share_rows`.
at::Tensor share_row(const at::Tensor& tensor, std::int64_t row);

}  // namespace torch_distinput
