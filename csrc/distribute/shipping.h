// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/stager.h"
#include "distribute/distribution.h"
#include "ops/last_normalization.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

class BufferPool;
struct BuiltStep;

/// How the parts of the local replicas get to their devices: a stager for each replica that is not on the
/// host. Belongs to one iterator.
class Shipping {
 public:
  explicit Shipping(std::vector<std::shared_ptr<Stager>> stagers) : stagers_(std::move(stagers)) {}

  /// The same for the parts of replica `replica` alone.
  std::shared_ptr<Shipping> only(std::size_t replica) const;

  /// Begins to copy the parts of `step`, as far as there is room on the way. Throws nothing: what could not
  /// begin here is tried again, and fails, in `deliver`. Any thread.
  void begin(BuiltStep& step) noexcept;
  /// The parts of `step` for the calling thread's current streams; `step` stays as it was. Throws what the
  /// devices throw, and an interrupt. One thread at a time.
  std::vector<Element> deliver(BuiltStep& step);

 private:
  std::vector<std::shared_ptr<Stager>> stagers_;  // null for a replica on the host
};
using ShippingPtr = std::shared_ptr<Shipping>;

/// Whether any replica's parts leave the host.
bool leaves_host(const Distribution& distribution);

/// Null where nothing leaves the host. Sets up the devices.
ShippingPtr open_shipping(const Distribution& distribution);

/// Who does the `normalize_images` with which each pipeline ends.
struct Unpacking {
  std::vector<ops::LastNormalization> left;  ///< to the devices, behind the copy; empty: the host does it,
  std::string obstacle;                      ///< because of this; empty: it is not the last op of all
};
Unpacking unpacking_on_devices(const Distribution& distribution);

/// `unpacking_on_devices(distribution).left`.
std::vector<ops::LastNormalization> left_to_devices(const Distribution& distribution);

/// The type of the elements as they are made on the host; null: not known.
SpecPtr host_spec(const Distribution& distribution);

/// The memory in which this distribution's batches should be made.
std::shared_ptr<BufferPool> batch_pool(const Distribution& distribution);

}  // namespace torch_distinput
