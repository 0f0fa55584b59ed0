// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/leaf_rows.h"

namespace torch_distinput {

Opaque join(const LeafRun<Opaque>& run, BufferPool& /*pool*/) {
  const auto dims = [&](const Opaque& leaf) { return row_dims(leaf.shape, run.stacking); };
  run.require_same("shape", dims, dims_text, "map it to one shape");
  Opaque joined{{}, {0}, run[0].type_name};
  joined.shape.insert(joined.shape.end(), dims(run[0]).begin(), dims(run[0]).end());
  for (std::size_t i = 0; i < run.size(); ++i) {
    joined.objects.insert(joined.objects.end(), run[i].objects.begin(), run[i].objects.end());
    joined.shape.front() += run.stacking ? 1 : run[i].shape.front();
  }
  return joined;
}

Opaque slice(const Opaque& leaf, std::int64_t begin, std::int64_t end) {
  const std::int64_t objects = c10::multiply_integers(leaf.shape.begin() + 1, leaf.shape.end());
  const auto first = leaf.objects.begin();
  Opaque result{{first + begin * objects, first + end * objects}, leaf.shape, leaf.type_name};
  result.shape.front() = end - begin;
  return result;
}

Opaque row_of(const Opaque& leaf, std::int64_t row) {
  Opaque result = slice(leaf, row, row + 1);
  result.shape.erase(result.shape.begin());
  return result;
}

Opaque copy(const Opaque& leaf, BufferPool& /*pool*/) { return leaf; }

}  // namespace torch_distinput
