// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// Leaf `leaf` of several elements, which become rows of one leaf (`stacking`) or whose rows are joined; with
/// what messages say about it.
struct LeafPlace {
  std::span<const Element> elements;
  std::size_t leaf;
  std::string_view op;
  bool stacking;

  /// `batch: leaf ['x']`.
  std::string name() const;
  /// Throws c10::ValueError: the leaf must have one `what`, but is `first` in element 0 and `other` in
  /// element `index`. `advice` says what to do.
  [[noreturn]] void refuse_mixed(std::string_view what, std::string_view first, std::size_t index,
                                 std::string_view other, std::string_view advice) const;
  /// Throws c10::ValueError where the leaf is not of one kind in all elements.
  void require_one_kind() const;
};

/// A leaf that is of one kind in all elements: at::Tensor, Bytes, Ragged, Sparse or Opaque.
template <class Kind>
struct LeafRun : LeafPlace {
  std::size_t size() const { return elements.size(); }
  const Kind& operator[](std::size_t index) const { return std::get<Kind>(elements[index].leaves()[leaf]); }

  /// Throws c10::ValueError where `get` of the leaf differs; `text` prints it.
  template <class Get, class Text>
  void require_same(std::string_view what, Get get, Text text, std::string_view advice) const {
    const auto first = get((*this)[0]);
    for (std::size_t i = 1; i < size(); ++i) {
      const auto here = get((*this)[i]);
      if (here != first) refuse_mixed(what, text(first), i, text(here), advice);
    }
  }
};

/// The dims of a leaf beside those along which rows are joined: all of a new row, else all but dim 0.
inline at::IntArrayRef row_dims(at::IntArrayRef shape, bool stacking) {
  return stacking ? shape : shape.slice(1);
}
inline std::string dtype_text(c10::ScalarType dtype) { return "torch." + dtype_name(dtype); }
inline std::string dims_text(at::IntArrayRef dims) { return dims_string(dims.vec()); }

}  // namespace torch_distinput
