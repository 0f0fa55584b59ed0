// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distribute/steps/distribution.h"
#include "execution/last_normalization.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

class BufferPool;

/// Whether any replica's parts leave the host.
bool leaves_host(const Distribution& distribution);

/// Who does the `normalize_images` with which each pipeline ends.
struct Unpacking {
  std::vector<LastNormalizationPtr> left;  ///< to the devices, after the copy; empty: the host does it,
  std::string obstacle;                    ///< because of this; empty: it is not the last op of all
};
Unpacking unpacking_on_devices(const Distribution& distribution);

/// `unpacking_on_devices(distribution).left`.
std::vector<LastNormalizationPtr> left_to_devices(const Distribution& distribution);

/// The type of the elements as they are made on the host; null: not known.
SpecPtr host_spec(const Distribution& distribution);

/// The memory in which this distribution's batches should be made.
std::shared_ptr<BufferPool> batch_pool(const Distribution& distribution);

}  // namespace torch_distinput
