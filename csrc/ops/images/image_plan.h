// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "ops/images/image_program.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// The elements of `input`, of type `spec`, after `program`. Where all leaves are dense and of static shape,
/// images are written straight into the batch.
PlanPtr image_plan(PlanPtr input, ImageProgram program, const ElementSpec& spec,
                   std::shared_ptr<BufferPool> pool);

/// Replaces the image of `element`, row `row`, and what follows it by the program's results in memory of
/// `pool`.
void apply_program(const ImageProgram& program, Element& element, std::int64_t row, const RowOrigin& origin,
                   BufferPool& pool);

}  // namespace torch_distinput
