// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "kernels/images.h"
#include "torch_distinput/node.h"

namespace torch_distinput::ops {

/// A `normalize_images` that a device can do behind the copy, so that bytes and not floats cross the bus.
struct LastNormalization {
  const Node* node;  ///< lives as long as the pipeline; goes to `Engine::left_to_devices`
  ImageNormalization normalization;
  SpecPtr from;  ///< of the elements that are copied
};

/// The one behind which nothing of the pipeline `root` looks into elements any more. Unset where there is
/// none, where its input is not batches, or where the channels are known only when the data is seen.
std::optional<LastNormalization> last_normalization(const Node& root);

}  // namespace torch_distinput::ops
