// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "torch_distinput/api.h"
#include "torch_distinput/structure.h"

namespace torch_distinput {

class Node;
using NodePtr = std::shared_ptr<const Node>;

/// Strings: one, or a column of them. String i is `values[offsets[i], offsets[i + 1])`. A plain value; any
/// thread may read it.
struct TDI_API Bytes {
  /// uint8, shape [bytes], contiguous, in host memory.
  at::Tensor values;
  /// int64, shape [count + 1], contiguous, non-decreasing, in host memory. Need not start at 0, so that rows
  /// of a column share its memory. May be undefined for a single string, which then is all of `values`.
  at::Tensor offsets;
  /// Dims of the column, whose product is `count()`; empty for a single string.
  std::vector<std::int64_t> shape;
  /// Whether the strings are UTF-8 text (`str` in Python) or any bytes (`bytes`).
  bool utf8 = false;

  /// A copy of one string. Does not check that it is UTF-8.
  static Bytes single(std::string_view string, bool utf8 = false);
  /// A copy of `strings` as a column of one dim.
  static Bytes column(std::span<const std::string_view> strings, bool utf8 = false);

  /// Number of strings; 1 for a single string.
  std::int64_t count() const;
  /// String `index` in row-major order. REQUIRES: 0 <= `index` < `count()`. The view lives as long as
  /// `values`; of a temporary, a copy.
  std::string_view operator[](std::int64_t index) const&;
  std::string operator[](std::int64_t index) const&& { return std::string((*this)[index]); }
};

/// Rows of varying length with one ragged dimension: row i is
/// `values[offsets[i], offsets[i + 1])`.
struct Ragged {
  at::Tensor values;  ///< any dtype, shape [total, inner dims...]
  /// int64, shape [rows + 1], contiguous, non-decreasing. In host memory it need not start at 0, so that rows
  /// of a column share its memory; where `values` are on a device, so is this, and it starts at 0.
  at::Tensor offsets;
};

/// A COO tensor (torch.sparse_coo). Its rows are the indices of its first sparse dim.
struct Sparse {
  at::Tensor value;  ///< any dtype; at least 1 sparse dim where it has rows
};

/// Objects that the pipeline carries without looking into them: one, or a column of them. In Python any
/// object that is not any other kind of leaf, or a list of them.
struct Opaque {
  std::vector<std::shared_ptr<void>> objects;  ///< in row-major order
  std::vector<std::int64_t> shape;             ///< dims of the column; empty for one object
  std::string type_name;                       ///< of the first object, for messages
};

/// One leaf of an element: dense, strings, ragged, sparse, objects, or a nested dataset. An op throws for a
/// kind that it cannot handle, naming the leaf.
using Leaf = std::variant<at::Tensor, Bytes, Ragged, Sparse, Opaque, NodePtr>;

/// `dense`, `bytes`, `ragged`, `sparse`, `opaque` or `dataset`.
TDI_API std::string_view leaf_kind(const Leaf& leaf);

/// One item of a dataset: leaves in depth-first order and the structure that holds them. A cheap value: a
/// copy shares the tensors. Any thread may read it; writes need the caller's own synchronisation.
class TDI_API Element {
 public:
  /// An element without leaves: `None`.
  Element();
  /// A bare dense tensor.
  Element(at::Tensor value);  // NOLINT(google-explicit-constructor)
  /// REQUIRES: `leaves.size() == structure->leaf_count()`.
  Element(StructurePtr structure, std::vector<Leaf> leaves);

  /// An element of several parts. `dict` throws c10::ValueError for a key that occurs twice.
  static Element tuple(std::vector<Element> parts);
  static Element list(std::vector<Element> parts);
  static Element dict(std::vector<std::pair<std::string, Element>> parts);

  /// The nesting.
  StructurePtr structure() const noexcept { return structure_; }
  /// The leaves in depth-first order. References live as long as the element; of a temporary, a copy.
  const std::vector<Leaf>& leaves() const& noexcept { return leaves_; }
  std::vector<Leaf>& leaves() & noexcept { return leaves_; }
  std::vector<Leaf> leaves() const&& { return leaves_; }

  /// The tensor of an element that is one bare dense leaf; it shares the memory. Throws c10::TypeError for
  /// any other element.
  at::Tensor tensor() const;
  /// Dense leaf `index`, counted depth-first; it shares the memory. Throws c10::TypeError when the leaf is
  /// not dense, c10::IndexError when there is no such leaf.
  at::Tensor tensor(std::size_t index) const;
  /// The part under a dict key or named tuple field; throws c10::IndexError if absent.
  Element operator[](std::string_view key) const;
  /// Part `index` of a tuple, list, dict or named tuple; throws c10::IndexError if absent.
  Element operator[](std::size_t index) const;

  /// Rows along dim 0 when every leaf has the same number of them, else nullopt
  /// (no leaf, a scalar leaf, leaves that disagree).
  std::optional<std::int64_t> rows() const;
  /// Bytes of the tensors' data, for statistics: objects and nested datasets count as 0.
  std::int64_t bytes() const;

 private:
  StructurePtr structure_;
  std::vector<Leaf> leaves_;
};

}  // namespace torch_distinput
