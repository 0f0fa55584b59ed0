// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/peers.h"

namespace torch_distinput {

std::string Peers::next_dataset_key() {
  const std::lock_guard lock(mutex_);
  return "dataset/" + std::to_string(datasets_++);
}

PeerWatch& Peers::watch() {
  const std::lock_guard lock(mutex_);
  if (!watch_) watch_ = start_peer_watch(communicator_, interval_);
  return *watch_;
}

}  // namespace torch_distinput
