// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distribute/lane.h"

namespace torch_distinput {

/// Runs the pipelines of the local replicas side by side: step t is made of their steps t. A replica whose
/// data has ended gets zero rows; with tail `kUntilFirst` all stop before it. Several are always read ahead,
/// each by a thread of its own. REQUIRES: `distribution->pipelines` is not empty.
std::unique_ptr<Lane> open_pipelines_lane(const DistributionPtr& distribution, const IterContext& context,
                                          const Start& start, const ShippingPtr& shipping, Reading reading);

}  // namespace torch_distinput
