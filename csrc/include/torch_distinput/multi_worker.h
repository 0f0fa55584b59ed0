// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "torch_distinput/process_group.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// Several processes (workers), each with the same number of replicas: the global batch is assigned over all
/// of them. Every process makes the same datasets in the same order. Where the processes read one stream
/// (policy DATA), who gets which rows is arithmetic: they exchange a few texts when an iterator takes its
/// first step and none afterwards.
///
/// No devices: the accelerator of `LOCAL_RANK`, else one CPU. Throws c10::ValueError for a device that does
/// not exist.
class TDI_API MultiWorkerMirroredStrategy : public Strategy {
 public:
  explicit MultiWorkerMirroredStrategy(const ProcessGroup& group, std::vector<std::string> devices = {});
};

}  // namespace torch_distinput
