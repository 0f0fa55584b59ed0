// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/multi_worker.h"

#include <utility>

#include "comm/store_communicator.h"
#include "distribute/devices.h"
#include "distribute/peers.h"

namespace torch_distinput {
namespace {

constexpr const char* kName = "MultiWorkerMirroredStrategy";

}  // namespace

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const ProcessGroup& group,
                                                         std::vector<std::string> devices)
    : Strategy(devices.empty() ? local_device(kName) : find_devices(devices, kName),
               /*partial_batches=*/true) {
  num_workers_ = group.size;
  worker_ = group.rank;
  if (group.size == 1) return;
  peers_ = std::make_shared<Peers>(store_communicator(group), std::chrono::seconds{1}, group.make_group);
}

}  // namespace torch_distinput
