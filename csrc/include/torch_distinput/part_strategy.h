// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// One part of `count`, for processes that come and go: which replica gets which rows is arithmetic, as for
/// MultiWorkerMirroredStrategy, but no process exchanges anything with another. So the data needs a seed
/// where it is random, and something else has to say which process has which part of a step. Not for values:
/// `reduce` and `gather` see this process only.
class TDI_API PartStrategy : public Strategy {
 public:
  /// Part `index` of `count`; `devices` as for MultiWorkerMirroredStrategy. Throws c10::ValueError where
  /// `index` is not in [0, count), and for a device that does not exist.
  PartStrategy(std::int64_t index, std::int64_t count, std::vector<std::string> devices = {});
};

}  // namespace torch_distinput
