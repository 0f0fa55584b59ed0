// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/infer_batch_size.h"

#include <algorithm>

#include <c10/util/Exception.h>

namespace torch_distinput {
namespace {

void require_rows(const ElementSpec& spec, std::string_view call) {
  TORCH_CHECK_VALUE(!spec.leaves.empty(), call, ": the elements (", to_string(spec),
                    ") have no leaf whose rows could be assigned over replicas.");
  for (std::size_t i = 0; i < spec.leaves.size(); ++i) {
    const std::string path = spec.structure->leaf_path(static_cast<std::int64_t>(i));
    TORCH_CHECK_VALUE(dim0(spec.leaves[i]).has_value(), call, ": ",
                      path.empty() ? "the element" : "leaf " + path,
                      " has no rows to assign over replicas, it is ", to_string(spec.leaves[i]),
                      ". Call `batch` on the dataset first.");
  }
}

}  // namespace

bool has_rows(const Node& node) {
  const SpecPtr spec = node.spec();
  if (!spec) return true;
  return !spec->leaves.empty() && std::all_of(spec->leaves.begin(), spec->leaves.end(),
                                              [](const LeafSpec& leaf) { return dim0(leaf).has_value(); });
}

void require_rows(const Node& node, std::string_view call) {
  if (const SpecPtr spec = node.spec()) require_rows(*spec, call);
}

std::int64_t infer_batch_size(const Node& node) {
  if (const SpecPtr spec = node.spec()) {
    require_rows(*spec, "infer_batch_size");
    const std::int64_t first = *dim0(spec->leaves.front());
    const auto is_static = [](const LeafSpec& leaf) { return dim0(leaf) != kUnknownDim; };
    const auto is_first = [&](const LeafSpec& leaf) { return dim0(leaf) == first; };
    if (std::all_of(spec->leaves.begin(), spec->leaves.end(), is_static)) {
      return std::all_of(spec->leaves.begin(), spec->leaves.end(), is_first) ? first : -1;
    }
  }
  return node.batch_size().value_or(-1);
}

}  // namespace torch_distinput
