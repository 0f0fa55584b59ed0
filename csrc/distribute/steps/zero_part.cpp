// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/zero_part.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

namespace torch_distinput {
namespace {

const ElementSpec& known(const SpecPtr& spec) {
  TORCH_CHECK_VALUE(
      spec != nullptr,
      "distribute_dataset: a replica has no rows in this step, and the type of the elements is not "
      "known; declare it (`element_spec`).");
  return *spec;
}

bool may_be_scalar(const TensorSpec& spec) {
  return spec.shape ? spec.shape->empty() : spec.expected.empty();
}

/// Replaces a leaf that has no dim 0 in `spec` by a scalar: a zero or an empty string.
void put_scalar(const LeafSpec& spec, Leaf& leaf) {
  const auto* dense = std::get_if<TensorSpec>(&spec);
  if (dense != nullptr && may_be_scalar(*dense)) leaf = at::zeros({}, dense->dtype);
  const auto* strings = std::get_if<StringSpec>(&spec);
  if (strings != nullptr && strings->shape && strings->shape->empty())
    leaf = Bytes::single("", strings->encoding.has_value());
}

}  // namespace

Element zero_part(const SpecPtr& spec, const Node& node) {
  return zero_rows(known(spec ? spec : node.spec()));
}

Element zero_element(const SpecPtr& spec, const Node& node) {
  const SpecPtr type = spec ? spec : node.spec();
  Element element = zero_rows(known(type));
  for (std::size_t i = 0; i < element.leaves().size(); ++i) put_scalar(type->leaves[i], element.leaves()[i]);
  return element;
}

}  // namespace torch_distinput
