// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/ahead_ledger.h"

#include <iterator>
#include <set>
#include <utility>

#include "base/of_process.h"

namespace torch_distinput {

AheadLedger& AheadLedger::of_process() {
  static auto& ledger = *new OfProcess<AheadLedger>;
  return ledger.get();
}

void AheadLedger::add(Entry entry, std::vector<Entry>& excess) {
  const std::lock_guard lock(mutex_);
  const FetchId fetch = entry.fetch;
  bytes_ += entry.bytes;
  entries_.push_back(std::move(entry));
  places_.emplace(fetch, std::prev(entries_.end()));
  while (bytes_ > kMostBytes && entries_.size() > 1) {
    bytes_ -= entries_.front().bytes;
    places_.erase(entries_.front().fetch);
    excess.push_back(std::move(entries_.front()));
    entries_.pop_front();
  }
}

void AheadLedger::remove(FetchId fetch) {
  Entry removed;  // released after the lock
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(fetch);
  if (found == places_.end()) return;
  removed = std::move(*found->second);
  bytes_ -= removed.bytes;
  entries_.erase(found->second);
  places_.erase(found);
}

void AheadLedger::release(ClaimId claim) {
  std::set<std::shared_ptr<AheadBytes>> owners;  // they take locks of their own, and call `remove`
  {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : entries_) owners.insert(entry.owner);
  }
  for (const auto& owner : owners) owner->release(claim);
}

}  // namespace torch_distinput
