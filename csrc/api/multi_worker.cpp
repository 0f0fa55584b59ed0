// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/multi_worker.h"

#include <utility>

#include "api/value_rounds.h"
#include "comm/c10d_store.h"
#include "comm/host_identity.h"
#include "comm/shared_slot.h"
#include "distribute/coordination/peers.h"
#include "distribute/values/devices.h"

namespace torch_distinput {
namespace {

constexpr const char* kMultiWorkerName = "MultiWorkerMirroredStrategy";

}  // namespace

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const ProcessGroup& group,
                                                         std::vector<std::string> devices)
    : Strategy(devices.empty() ? local_device(kMultiWorkerName) : find_devices(devices, kMultiWorkerName),
               /*partial_batches=*/true) {
  num_ranks_ = group.size;
  rank_ = group.rank;
  seeds_ = group.seeds_;
  if (group.size == 1) return;
  peers_ = std::make_shared<Peers>(group.shared_->get(
      [&] { return std::make_shared<GroupPeers>(c10d_store(group), host_identity(group)); }));
  value_rounds_ = std::make_shared<ValueRounds>(peers_);
}

}  // namespace torch_distinput
