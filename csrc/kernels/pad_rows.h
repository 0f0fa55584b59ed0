// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Scalar.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

class BufferPool;

/// What the rows of one leaf are padded to, and with what.
struct LeafPadding {
  /// `kUnknownDim`: the longest row of the batch; nullopt: that in every dim.
  std::optional<Dims> shape;
  c10::Scalar value = 0;
  std::optional<std::string> text = {};  ///< for strings, instead of a value; unset: ""
  bool utf8 = true;                      ///< `text` is; else bytes, which are for strings of bytes
};

/// What leaves are padded with as it is written in Python: `-1`, `'x'`, `b'\xff'`.
std::string to_string(const LeafPadding& padding);

/// Elements as rows of one element, as `stack_rows`, but rows that are shorter in some dims are padded at the
/// ends of those dims; leaves of other kinds are stacked. `padding`: one entry a leaf. Throws c10::ValueError
/// naming `op`, the leaf and the row where ranks or dtypes differ, where a row is longer than a declared dim,
/// where no memory could hold the batch, or where a dtype cannot hold the value. REQUIRES: at least one
/// element.
Element pad_rows(std::span<const Element> elements, std::span<const LeafPadding> padding, BufferPool& pool,
                 std::string_view op);

}  // namespace torch_distinput
