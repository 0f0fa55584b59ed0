// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/peers.h"

namespace torch_distinput {

void Peers::meet(const Patience& patience) {
  wait_until(rank_, [this] { return have_met(); }, [this] { return missing(); }, patience);
}

template <class Ask>
auto Peers::at_meeting(Ask ask) -> std::optional<decltype(ask(std::declval<Meeting&>()))> {
  std::unique_lock lock(mutex_);
  if (!meeting_) return std::nullopt;
  // Brings the meeting back, also where an interrupt ends the question.
  struct Taken {
    Peers& peers;
    std::unique_ptr<Meeting> meeting;
    ~Taken() {
      const std::lock_guard back(peers.mutex_);
      if (!peers.met_) peers.meeting_ = std::move(meeting);
    }
  } taken{*this, std::move(meeting_)};
  lock.unlock();
  return ask(*taken.meeting);
}

bool Peers::have_met() {
  at_meeting([this](Meeting& meeting) {
    const auto life = meeting.step();
    if (!life) return false;
    const std::lock_guard lock(mutex_);
    communicator_ = with_prefix(std::move(communicator_), "life/" + *life + "/");
    return met_ = true;
  });
  const std::lock_guard lock(mutex_);
  return met_;
}

std::vector<int> Peers::missing() {
  return at_meeting([](Meeting& meeting) { return meeting.missing(); }).value_or(std::vector<int>{});
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
