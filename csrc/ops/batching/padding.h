// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/pad_rows.h"
#include "torch_distinput/dataset.h"

namespace torch_distinput {

/// The arguments `padded_shapes` and `padding_values` of an op. Immutable.
class Padding {
 public:
  /// Throws c10::ValueError naming `op` for negative dims and for values that are no scalars.
  Padding(std::optional<PaddedShapes> shapes, std::optional<Element> values, std::string_view op);

  /// How the leaves of elements of this structure are padded. Throws c10::ValueError naming `op` where the
  /// arguments have another structure.
  std::vector<LeafPadding> of(const StructurePtr& structure) const;
  /// The same; throws too where the elements' spec shows that they cannot be padded so.
  std::vector<LeafPadding> of(const ElementSpec& elements) const;

  /// The spec of batches of `batch_size` rows (`kUnknownDim` where it varies) of padded elements.
  ElementSpec batch_spec(const ElementSpec& elements, std::int64_t batch_size) const;

  /// `, padded_shapes=(None, 3), padding_values=-1`: the arguments that are set.
  std::string describe() const;

 private:
  std::string_view op_;
  std::optional<PaddedShapes> shapes_;
  StructurePtr values_structure_;    ///< null: one value for all leaves
  std::vector<LeafPadding> values_;  ///< their shapes are unset
};

}  // namespace torch_distinput
