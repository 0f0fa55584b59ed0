// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/part_strategy.h"

#include <utility>

#include <c10/util/Exception.h>

#include "distribute/values/devices.h"

namespace torch_distinput {
namespace {

constexpr const char* kPartStrategyName = "PartStrategy";

}  // namespace

PartStrategy::PartStrategy(std::int64_t index, std::int64_t count, std::vector<std::string> devices)
    : Strategy(devices.empty() ? local_device(kPartStrategyName) : find_devices(devices, kPartStrategyName),
               /*partial_batches=*/true) {
  TORCH_CHECK_VALUE(0 <= index && index < count, kPartStrategyName,
                    ": `index` must be in [0, `count`), but is ", index, " with a count of ", count, ".");
  num_ranks_ = count;
  rank_ = index;
}

}  // namespace torch_distinput
