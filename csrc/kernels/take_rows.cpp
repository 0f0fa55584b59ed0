// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include "kernels/rows.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

Element Plan::take_rows(std::span<const Segment> segments) const {
  TORCH_INTERNAL_ASSERT(!segments.empty(), "take_rows without segments");
  std::vector<Element> parts;
  std::vector<Element> whole;
  std::int64_t held = -1;
  for (const auto& segment : segments) {
    if (segment.element != held) {
      std::int64_t position = segment.element;
      whole = fetch({&position, 1});
      held = segment.element;
    }
    parts.push_back(slice_rows(whole.front(), segment.begin, segment.end, "distribute_dataset"));
  }
  return concat_rows(parts, "distribute_dataset");
}

}  // namespace torch_distinput
