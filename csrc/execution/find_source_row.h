// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "torch_distinput/plan.h"

namespace torch_distinput {

/// Where a source row is in an epoch: in element `element`, and there the `index`-th of its source rows.
struct SourceRowPlace {
  std::int64_t element;
  std::int64_t index;
};

/// The first place of source row `row` in `plan`; nullopt where there is none. Looks through the positions in
/// order, without reading data; of an endless plan through `kMostSearched`.
std::optional<SourceRowPlace> find_source_row(const Plan& plan, std::int64_t row);

inline constexpr std::int64_t kMostSearched = std::int64_t{1} << 32;

}  // namespace torch_distinput
