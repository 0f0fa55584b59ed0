// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "ops/ops.h"
#include "torch_distinput/dataset.h"

namespace torch_distinput {

Dataset Dataset::decode_raw(c10::ScalarType dtype, Dims shape, std::optional<LeafKey> key) const {
  return Dataset(ops::decode_raw(node_, dtype, std::move(shape), std::move(key)));
}
Dataset Dataset::to_number(c10::ScalarType dtype, std::optional<LeafKey> key) const {
  return Dataset(ops::to_number(node_, dtype, std::move(key)));
}
Dataset Dataset::parse_example(Features features, std::optional<LeafKey> key) const {
  return Dataset(ops::parse_example(node_, std::move(features), std::move(key)));
}
Dataset Dataset::parse_sequence_example(Features context_features, SequenceFeatures sequence_features,
                                        std::optional<LeafKey> key) const {
  return Dataset(ops::parse_sequence_example(node_, std::move(context_features), std::move(sequence_features),
                                             std::move(key)));
}
Dataset Dataset::parse_tensor(c10::ScalarType dtype, std::optional<Dims> shape,
                              std::optional<LeafKey> key) const {
  return Dataset(ops::parse_tensor(node_, dtype, std::move(shape), std::move(key)));
}
Dataset Dataset::decode_members() const { return Dataset(ops::decode_members(node_)); }

}  // namespace torch_distinput
