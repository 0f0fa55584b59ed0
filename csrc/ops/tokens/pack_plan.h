// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include <c10/core/ScalarType.h>

#include "ops/tokens/pack_index.h"
#include "ops/tokens/packed_rows.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// The documents of a plan that knows their lengths.
struct Documents {
  PlanPtr plan;
  std::size_t leaf;       ///< with the tokens
  c10::ScalarType dtype;  ///< of the tokens
};

/// Random access to the rows of `index`, which is one of `documents`. A row reads the tokens of its pieces
/// only, and none of their documents' other tokens where the source can do so.
PlanPtr pack_plan(Documents documents, PackIndexPtr index, PackArguments packing,
                  std::shared_ptr<BufferPool> pool);

}  // namespace torch_distinput
