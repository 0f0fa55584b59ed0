// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/images.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/plan.h"

namespace torch_distinput::ops {

/// The rows of `input`, each leaf that holds images after `normalization`, which must not be `batched`. They
/// have a layout, so that numbers are computed straight into a batch. REQUIRES: `input` has a layout, whose
/// images have `normalization.scaling.channels()` channels.
PlanPtr normalized_plan(PlanPtr input, ImageNormalization normalization, std::shared_ptr<BufferPool> pool);

}  // namespace torch_distinput::ops
