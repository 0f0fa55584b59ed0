// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/combining/common_spec.h"

#include <memory>

#include <c10/util/Exception.h>

#include "execution/batch_reader.h"

namespace torch_distinput {
namespace {

/// The spec that covers both; a null spec is unknown and changes nothing.
SpecPtr cover(SpecPtr covered, SpecPtr spec, std::string_view op) {
  if (covered == nullptr || spec == nullptr) return covered == nullptr ? spec : covered;
  return std::make_shared<const ElementSpec>(merge_specs(*covered, *spec, op));
}

}  // namespace

SpecPtr common_spec(std::span<const NodePtr> inputs, std::string_view op) {
  SpecPtr covered;
  for (const NodePtr& input : inputs) covered = cover(covered, input->spec(), op);
  return covered;
}

void check_inputs(std::span<const NodePtr> inputs, std::string_view op) {
  TORCH_CHECK_VALUE(!inputs.empty(), op, ": `datasets` must hold at least 1 dataset, but holds none.");
  SpecPtr covered;
  for (const NodePtr& input : inputs) covered = cover(covered, quiet_spec(*input), op);
}

}  // namespace torch_distinput
