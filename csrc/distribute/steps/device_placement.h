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

/// Whether the parts of any replica are copied to a device.
bool leaves_host(const Distribution& distribution);

/// Where the `normalize_images` with which the pipelines end are executed.
struct Unpacking {
  std::vector<LastNormalizationPtr> left;  ///< on the devices, after the copy; empty: on the host
  std::string obstacle;  ///< why on the host; empty: not every pipeline ends with such an op
};

/// Decides it. Sets up no device, but may load a driver.
Unpacking unpacking_on_devices(const Distribution& distribution);

/// `unpacking_on_devices(distribution).left`.
std::vector<LastNormalizationPtr> left_to_devices(const Distribution& distribution);

/// The spec of the elements on the host, before devices unpack their images; null: not known.
SpecPtr host_spec(const Distribution& distribution);

/// The pool in which to make the batches of this distribution.
std::shared_ptr<BufferPool> batch_pool(const Distribution& distribution);

}  // namespace torch_distinput
