// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/peers.h"

namespace torch_distinput {

void Peers::meet(const WaitOptions& wait_options) {
  wait_until(rank_, [this] { return have_met(); }, [this] { return missing(); }, wait_options);
}

template <class Ask>
auto Peers::at_rendezvous(Ask ask) -> std::optional<decltype(ask(std::declval<Rendezvous&>()))> {
  std::unique_lock lock(mutex_);
  if (!rendezvous_) return std::nullopt;
  // Returns the rendezvous, also after an exception of `ask` such as an interrupt.
  struct Taken {
    Peers& peers;
    std::unique_ptr<Rendezvous> rendezvous;
    ~Taken() {
      const std::lock_guard back(peers.mutex_);
      if (!peers.met_) peers.rendezvous_ = std::move(rendezvous);
    }
  } taken{*this, std::move(rendezvous_)};
  lock.unlock();
  return ask(*taken.rendezvous);
}

bool Peers::have_met() {
  at_rendezvous([this](Rendezvous& rendezvous) {
    const auto life = rendezvous.step();
    if (!life) return false;
    const std::lock_guard lock(mutex_);
    kv_store_ = with_prefix(std::move(kv_store_), "life/" + *life + "/");
    return met_ = true;
  });
  const std::lock_guard lock(mutex_);
  return met_;
}

std::vector<int> Peers::missing() {
  return at_rendezvous([](Rendezvous& rendezvous) { return rendezvous.missing(); })
      .value_or(std::vector<int>{});
}

KeyValueStorePtr Peers::shared_store() {
  const std::lock_guard lock(mutex_);
  return kv_store_;
}

std::string Peers::next_dataset_key() {
  const std::lock_guard lock(mutex_);
  return "dataset/" + std::to_string(datasets_++);
}

HeartbeatMonitor& Peers::watch() {
  const std::lock_guard lock(mutex_);
  if (!watch_) watch_ = start_heartbeat_monitor(kv_store_, interval_);
  return *watch_;
}

std::unique_ptr<AllGather> Peers::make_rounds(const std::string& key, const WaitOptions& wait_options) {
  if (make_group_) return all_gather_over_group(shared_store(), key, make_group_, wait_options);
  return all_gather_over_store(shared_store(), key);
}

}  // namespace torch_distinput
