// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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
  /// int64, shape [count + 1], contiguous, never falling. Need not start at 0, so that rows of a column share
  /// its memory. May be undefined for a single string, which then is all of `values`.
  at::Tensor offsets;
  /// Dims of the column, their product is `count()`; empty for a single string.
  std::vector<std::int64_t> shape;
  /// Whether the strings are text in utf-8 (`str` in Python) or any bytes (`bytes`).
  bool utf8 = false;

  static Bytes single(std::string_view string, bool utf8 = false);
  /// A column of one dim.
  static Bytes column(std::span<const std::string_view> strings, bool utf8 = false);

  std::int64_t count() const;
  /// String `index` in row-major order. REQUIRES: 0 <= `index` < `count()`. Lives as long as `values`.
  std::string_view operator[](std::int64_t index) const;
};

/// Rows of varying length with one ragged dimension: row i is
/// `values[offsets[i], offsets[i + 1])`.
struct Ragged {
  at::Tensor values;  ///< shape [total, inner dims...]
  /// int64, shape [rows + 1], contiguous, never falling. In host memory it need not start at 0, so that rows
  /// of a column share its memory; where `values` are on a device, so is this, and it starts at 0.
  at::Tensor offsets;
};

/// A COO tensor. Its rows are the indices of its first sparse dim.
struct Sparse {
  at::Tensor value;
};

/// Objects that are carried and never looked into: one, or a column of them. In Python any object that is no
/// other leaf, or a list of them.
struct Opaque {
  std::vector<std::shared_ptr<void>> objects;  ///< in row-major order
  std::vector<std::int64_t> shape;             ///< dims of the column; empty for one object
  std::string type_name;                       ///< of the first object, for messages
};

/// One leaf of an element. Ops refuse, by name, the kinds they cannot handle.
using Leaf = std::variant<at::Tensor, Bytes, Ragged, Sparse, Opaque, NodePtr>;

/// `dense`, `bytes`, `ragged`, `sparse`, `opaque` or `dataset`.
TDI_API std::string_view leaf_kind(const Leaf& leaf);

/// One item of a dataset: leaves in depth-first order and the structure that
/// holds them. A cheap value; tensors are shared, not copied, when it is copied.
class TDI_API Element {
 public:
  /// An element without leaves: `None`.
  Element();
  /// A bare dense tensor.
  Element(at::Tensor value);  // NOLINT(google-explicit-constructor)
  /// REQUIRES: `leaves.size() == structure->leaf_count()`.
  Element(StructurePtr structure, std::vector<Leaf> leaves);

  static Element tuple(std::vector<Element> parts);
  static Element list(std::vector<Element> parts);
  static Element dict(std::vector<std::pair<std::string, Element>> parts);

  const StructurePtr& structure() const noexcept { return structure_; }
  const std::vector<Leaf>& leaves() const noexcept { return leaves_; }
  std::vector<Leaf>& leaves() noexcept { return leaves_; }

  /// The only leaf, dense. Throws c10::TypeError when it is not one dense leaf.
  const at::Tensor& tensor() const;
  /// Dense leaf `index`. Throws c10::TypeError when the leaf is not dense.
  const at::Tensor& tensor(std::size_t index) const;
  /// The part under a dict key or named tuple field; c10::IndexError if absent.
  Element operator[](std::string_view key) const;
  /// Part `index` of a tuple, list or named tuple; c10::IndexError if absent.
  Element operator[](std::size_t index) const;

  /// Rows along dim 0 when every leaf has the same number of them, else nullopt
  /// (no leaf, a scalar leaf, leaves that disagree).
  std::optional<std::int64_t> rows() const;
  /// Bytes of dense and column data, for statistics.
  std::int64_t bytes() const;

 private:
  StructurePtr structure_;
  std::vector<Leaf> leaves_;
};

}  // namespace torch_distinput
