// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include <ATen/core/Tensor.h>

#include "kernels/images/edit.h"
#include "kernels/images/pixels.h"
#include "torch_distinput/images.h"

namespace torch_distinput {

/// Whether boxes may be numbers of this type: float32, float64, int32 or int64.
bool is_box_dtype(c10::ScalarType dtype);

/// Changes bounding boxes as `edits` change their image of `extent`, in place, as torchvision does: crops and
/// padding clamp a box to the image, so that one outside of it keeps an edge but no area; resizes cut off the
/// fractions of integers. Edits of colours change nothing. Integers are kept within 32 bits. REQUIRES:
/// `boxes` is contiguous, [n, 4], in host memory, of a type of `is_box_dtype`.
void edit_boxes(const at::Tensor& boxes, BoxFormat format, Extent extent, std::span<const Edit> edits);

}  // namespace torch_distinput
