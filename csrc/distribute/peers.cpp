// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/peers.h"

namespace torch_distinput {

void Peers::meet(const Patience& patience) {
  wait_until(rank_, [this] { return have_met(); }, [this] { return missing(); }, patience);
}

bool Peers::have_met() {
  const std::lock_guard lock(mutex_);
  if (!meeting_) return true;
  const auto life = meeting_->step();
  if (!life) return false;
  meeting_.reset();
  communicator_ = with_prefix(std::move(communicator_), "life/" + *life + "/");
  return true;
}

std::vector<int> Peers::missing() {
  const std::lock_guard lock(mutex_);
  return meeting_ ? meeting_->missing() : std::vector<int>{};
}

CommunicatorPtr Peers::shared_communicator() {
  const std::lock_guard lock(mutex_);
  return communicator_;
}

std::string Peers::next_dataset_key() {
  const std::lock_guard lock(mutex_);
  return "dataset/" + std::to_string(datasets_++);
}

PeerWatch& Peers::watch() {
  const std::lock_guard lock(mutex_);
  if (!watch_) watch_ = start_peer_watch(communicator_, interval_);
  return *watch_;
}

std::unique_ptr<Rounds> Peers::make_rounds(const std::string& key, const Patience& patience) {
  if (make_group_) return rounds_in_group(shared_communicator(), key, make_group_, patience);
  return rounds_on_board(shared_communicator(), key);
}

}  // namespace torch_distinput
