// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <c10/core/ScalarType.h>

#include "torch_distinput/api.h"
#include "torch_distinput/element.h"
#include "torch_distinput/structure.h"

namespace torch_distinput {

/// Sizes of dimensions; `kUnknownDim` where a size is not known statically.
using Dims = std::vector<std::int64_t>;
inline constexpr std::int64_t kUnknownDim = -1;

// The specs below are values, and compare equal where they describe the same type. `shape` nullopt means that
// not even the number of dims is known.

/// A dense tensor.
struct TDI_API TensorSpec {
  std::optional<Dims> shape = {};
  c10::ScalarType dtype = c10::ScalarType::Float;
  /// Dims seen when a function was probed. Not part of the type (not compared); zero-row tensors use them
  /// where `shape` is unknown. Empty: never probed.
  Dims expected = {};

  bool operator==(const TensorSpec& other) const { return shape == other.shape && dtype == other.dtype; }
};

/// Rows of varying length.
struct TDI_API RaggedTensorSpec {
  std::optional<Dims> shape = {};  ///< `kUnknownDim` for ragged dims
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::int64_t ragged_rank = 1;  ///< number of ragged dims; leaves have at most 1
  Dims expected = {};            ///< as in `TensorSpec`

  bool operator==(const RaggedTensorSpec& other) const {
    return shape == other.shape && dtype == other.dtype && ragged_rank == other.ragged_rank;
  }
};

/// A COO tensor. It has no `expected` dims: unknown dims of zero-row tensors are 0, as recorded from
/// tf.distribute.
struct TDI_API SparseTensorSpec {
  std::optional<Dims> shape = {};
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool operator==(const SparseTensorSpec&) const = default;
};

/// Strings.
struct TDI_API StringSpec {
  std::optional<Dims> shape = {};
  std::optional<std::string> encoding = {};  ///< "utf-8" for text; nullopt for bytes
  bool operator==(const StringSpec&) const = default;
};

/// Objects that the pipeline carries without looking into them; their shape is that of nested lists.
struct TDI_API OpaqueSpec {
  std::optional<Dims> shape = Dims{};
  bool operator==(const OpaqueSpec&) const = default;
};

struct ElementSpec;
/// Null where a spec cannot be known (a function over a dataset without rows).
using SpecPtr = std::shared_ptr<const ElementSpec>;

/// A nested dataset.
struct TDI_API DatasetSpec {
  SpecPtr element;  ///< the type of its elements; null: unknown
  bool operator==(const DatasetSpec& other) const;
};

/// The type of one leaf.
using LeafSpec =
    std::variant<TensorSpec, RaggedTensorSpec, SparseTensorSpec, StringSpec, OpaqueSpec, DatasetSpec>;

/// The type of a dataset's elements: a structure and one spec for each leaf, in depth-first order.
struct TDI_API ElementSpec {
  StructurePtr structure;
  std::vector<LeafSpec> leaves;
  bool operator==(const ElementSpec&) const = default;
};

// The functions below are safe from any thread.

/// The spec of one concrete element: every dim known, except ragged ones.
TDI_API ElementSpec spec_of(const Element& element);
/// Dim 0 of a leaf: its size, `kUnknownDim`, or nullopt for a scalar and a nested dataset. Unknown rank
/// counts as an unknown dim 0.
TDI_API std::optional<std::int64_t> dim0(const LeafSpec& leaf);
/// `leaf` with `size` put before its dims (batching), or with `size` in place of dim 0.
TDI_API LeafSpec prepend_dim(const LeafSpec& leaf, std::int64_t size);
TDI_API LeafSpec replace_dim0(const LeafSpec& leaf, std::int64_t size);
/// `leaf` without its dim 0 (unbatching); one with a single ragged dim becomes dense. REQUIRES: not a scalar.
TDI_API LeafSpec drop_dim0(const LeafSpec& leaf);
/// The most specific spec that covers both. Throws c10::ValueError naming `op` and the leaf where structures,
/// kinds or dtypes differ.
TDI_API ElementSpec merge_specs(const ElementSpec& a, const ElementSpec& b, std::string_view op);
/// Throws c10::ValueError unless `element` fits `spec`: names `where`, the leaf, the expected and the actual
/// type.
TDI_API void check_element(const Element& element, const ElementSpec& spec, std::string_view where);
/// A zero-row element of this spec on the CPU: dim 0 is 0 even where another size is declared; other dims are
/// the declared ones, else the expected ones, else 0. Throws c10::TypeError for a dataset leaf.
TDI_API Element zero_rows(const ElementSpec& spec);
/// `TensorSpec(shape=(None, 3), dtype=torch.float32)`, with `None` for unknown; as Python prints the spec.
TDI_API std::string to_string(const LeafSpec& leaf);
TDI_API std::string to_string(const ElementSpec& spec);
/// The name without `torch.`: `float32`, `int64`, ...
TDI_API std::string dtype_name(c10::ScalarType dtype);
/// `(None, 3)`; `None` for unknown rank.
TDI_API std::string dims_string(const std::optional<Dims>& shape);

}  // namespace torch_distinput
