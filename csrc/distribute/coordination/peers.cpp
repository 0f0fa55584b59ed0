// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/peers.h"

namespace torch_distinput {

GroupLink& GroupPeers::link() {
  const std::lock_guard lock(mutex_);
  if (!link_) link_ = std::make_shared<GroupLink>(kv_store_, host_);
  return *link_;
}

HeartbeatMonitor& GroupPeers::watch() {
  link();
  const std::lock_guard lock(mutex_);
  if (!watch_) watch_ = start_heartbeat_monitor(link_, interval_);
  return *watch_;
}

std::int64_t GroupPeers::next_strategy() {
  const std::lock_guard lock(mutex_);
  return strategies_++;
}

std::string Peers::next_dataset_key() {
  const std::lock_guard lock(mutex_);
  return name_ + "/dataset/" + std::to_string(datasets_++);
}

}  // namespace torch_distinput
