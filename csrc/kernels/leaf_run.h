// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// One leaf of several elements that are to be stacked or concatenated, and the names for error messages.
/// Refers to the elements and holds none of them.
struct LeafPlace {
  std::span<const Element> elements;  ///< at least one, all of the same structure
  std::size_t leaf;                   ///< the number of the leaf
  std::string_view op;                ///< the op to name in messages
  bool stacking;  ///< the leaves become rows of one leaf; else their rows are concatenated

  /// Returns the op and the leaf for a message, such as `batch: leaf ['x']`.
  std::string name() const;
  /// Throws c10::ValueError (FailedPreconditionError for the shapes of rows to concatenate): the leaf must
  /// have one `what`, but is `first` in element 0 and `other` in element `index`. `advice` says what to do.
  [[noreturn]] void refuse_mixed(std::string_view what, std::string_view first, std::size_t index,
                                 std::string_view other, std::string_view advice) const;
  /// Throws c10::ValueError unless the leaf is of the same kind in all elements.
  void require_one_kind() const;
};

/// A LeafPlace whose leaf is of kind `Kind` in all elements: at::Tensor, Bytes, Ragged, Sparse or Opaque.
template <class Kind>
struct LeafRun : LeafPlace {
  /// The number of elements, and the leaf of one of them.
  std::size_t size() const { return elements.size(); }
  const Kind& operator[](std::size_t index) const { return std::get<Kind>(elements[index].leaves()[leaf]); }

  /// Throws as `refuse_mixed` unless `get(leaf)` is equal in all elements. `text` turns its result into text.
  template <class Get, class Text>
  void require_same(std::string_view what, Get get, Text text, std::string_view advice) const {
    const auto first = get((*this)[0]);
    for (std::size_t i = 1; i < size(); ++i) {
      const auto here = get((*this)[i]);
      if (here != first) refuse_mixed(what, text(first), i, text(here), advice);
    }
  }
};

/// Returns the dims of `shape` that must be equal in all leaves: all of them to stack, all but dim 0 to
/// concatenate. A view of `shape`.
inline at::IntArrayRef row_dims(at::IntArrayRef shape, bool stacking) {
  return stacking ? shape : shape.slice(1);
}
/// A dtype or dims as messages show them: `torch.float32`, `(2, 3)`.
inline std::string dtype_text(c10::ScalarType dtype) { return "torch." + dtype_name(dtype); }
inline std::string dims_text(at::IntArrayRef dims) { return dims_string(dims.vec()); }

}  // namespace torch_distinput
