// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/pad_rows.h"
#include "ops/batching/join_rows.h"
#include "torch_distinput/dataset.h"

namespace torch_distinput {

/// The arguments `padded_shapes` and `padding_values` of an op. Immutable, so safe from any thread.
class Padding {
 public:
  /// Throws c10::ValueError naming `op` for negative dims and for values that are not scalars. `op` must
  /// outlive this object.
  Padding(std::optional<PaddedShapes> shapes, std::optional<Element> values, std::string_view op);

  /// Returns how each leaf of elements of this structure is padded. Throws c10::ValueError naming `op` if the
  /// arguments have another structure.
  std::vector<LeafPadding> of(const StructurePtr& structure) const;
  /// The same for elements of this spec. Also throws if the spec shows that a leaf cannot be padded so.
  std::vector<LeafPadding> of(const ElementSpec& elements) const;

  /// Returns the spec of batches of `batch_size` rows (`kUnknownDim` if that varies) of padded elements.
  ElementSpec batch_spec(const ElementSpec& elements, std::int64_t batch_size) const;

  /// Whether rows are padded to given shapes, also where all have one shape already.
  bool has_shapes() const { return shapes_.has_value(); }
  /// Returns the arguments that are set, such as `, padded_shapes=(None, 3), padding_values=-1`.
  std::string describe() const;

 private:
  std::string_view op_;
  std::optional<PaddedShapes> shapes_;
  StructurePtr values_structure_;    ///< null if one value is for all leaves
  std::vector<LeafPadding> values_;  ///< with shapes unset
};

/// How rows are padded to a batch by `op`, a literal. A part of a batch needs all its rows.
JoinRows padding_rows(std::shared_ptr<const Padding> padding, std::string_view op);

}  // namespace torch_distinput
