// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <c10/core/Scalar.h>

#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

class BufferPool;

/// The shape that the rows of one leaf are padded to, and the value they are padded with.
struct LeafPadding {
  /// The shape of each row after padding; `kUnknownDim` means the longest row of the batch, and nullopt means
  /// that for every dim.
  std::optional<Dims> shape;
  c10::Scalar value = 0;                 ///< for tensors; must be 0 for strings
  std::optional<std::string> text = {};  ///< for strings, unset means ""; must be unset for tensors
  bool utf8 = true;                      ///< whether `text` is UTF-8; if not, it pads only strings of bytes
};

/// Returns the padding value as it is written in Python: `-1`, `'x'`, `b'\xff'`.
std::string to_string(const LeafPadding& padding);

/// Stacks elements as rows of one element, as `stack_rows`, but rows of dense and string leaves that are
/// shorter in some dims are padded at the ends of those dims. `padding` has one entry for each leaf. Throws
/// c10::ValueError naming `op`, the leaf and the row if ranks or dtypes differ, if a row is longer than a
/// declared dim, if the batch is larger than any memory, or if a dtype cannot hold the value. Safe from any
/// thread. REQUIRES: at least one element.
Element pad_rows(std::span<const Element> elements, std::span<const LeafPadding> padding, BufferPool& pool,
                 std::string_view op);
/// As `pad_rows` for rows that are one column, whose leaves that vary in dim 0 are ragged.
Element pad_column(Element column, std::span<const LeafPadding> padding, BufferPool& pool,
                   std::string_view op);

}  // namespace torch_distinput
