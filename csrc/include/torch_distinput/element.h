// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/structure.h"

namespace torch_distinput {

class Node;
using NodePtr = std::shared_ptr<const Node>;

/// A column of byte strings: string i is `values[offsets[i], offsets[i + 1])`.
struct Bytes {
  at::Tensor values;   ///< uint8, shape [total bytes]
  at::Tensor offsets;  ///< int64, shape [count + 1], starts at 0
  /// Shape of the column; empty for a single string.
  std::vector<std::int64_t> shape;
};

/// Rows of varying length with one ragged dimension: row i is
/// `values[offsets[i], offsets[i + 1])`.
struct Ragged {
  at::Tensor values;   ///< shape [total, inner dims...]
  at::Tensor offsets;  ///< int64, shape [rows + 1], starts at 0
};

/// A COO tensor.
struct Sparse {
  at::Tensor value;
};

/// Any other object, carried and never looked into; in Python a PyObject.
struct Opaque {
  std::shared_ptr<void> object;
  std::string type_name;
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
