// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/images.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// A `normalize_images` that a device can do after the copy, so that bytes and not floats cross the bus; the
/// result of `Node::last_normalization`.
struct LastNormalization {
  const Node* node;  ///< lives as long as the pipeline; goes to `ExecutionContext::left_to_devices`
  ImageNormalization normalization;  ///< what the device must compute; devices take batches only
  SpecPtr from;                      ///< type that elements have without it, which are copied
};

}  // namespace torch_distinput
