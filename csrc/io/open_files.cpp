// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/open_files.h"

#include <cstring>
#include <iterator>

namespace torch_distinput {
namespace {

constexpr int kOldestLooks = 2;

}  // namespace

/// A digest is as good as random already.
std::size_t OpenFiles::Hash::operator()(const Name& name) const noexcept {
  std::size_t first;
  std::memcpy(&first, name.first.data(), sizeof(first));
  return first + name.second;
}

CacheFilePtr OpenFiles::get(const CacheKey& key, std::uint64_t number) {
  CacheFilePtr file;
  {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find({key.digest, number});
    if (found == places_.end()) return nullptr;
    used_.splice(used_.begin(), used_, found->second);
    file = found->second->second;
  }
  if (!file->was_removed()) return file;
  remove(key, number);
  return nullptr;
}

void OpenFiles::put(const CacheKey& key, CacheFilePtr file) {
  std::list<Entry> closed;  // declared before the lock: files are closed after the lock is released
  const Name name(key.digest, file->number());
  const std::lock_guard lock(mutex_);
  if (places_.contains(name)) return;
  used_.emplace_front(name, std::move(file));
  places_.emplace(name, used_.begin());
  take_removed(closed);
  if (used_.size() <= most_) return;
  places_.erase(used_.back().first);
  closed.splice(closed.end(), used_, std::prev(used_.end()));
}

/// Moves those that were removed among the few that were not read for longest to `removed`. With the lock.
void OpenFiles::take_removed(std::list<Entry>& removed) {
  Place next = used_.end();
  for (int looks = 0; looks < kOldestLooks && next != used_.begin(); ++looks) {
    const Place oldest = std::prev(next);
    if (oldest->second->was_removed()) {
      places_.erase(oldest->first);
      removed.splice(removed.end(), used_, oldest);
    } else {
      next = oldest;
    }
  }
}

void OpenFiles::remove(const CacheKey& key, std::uint64_t number) {
  std::list<Entry> closed;
  const std::lock_guard lock(mutex_);
  const auto found = places_.find({key.digest, number});
  if (found == places_.end()) return;
  closed.splice(closed.end(), used_, found->second);
  places_.erase(found);
}

}  // namespace torch_distinput
