// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/open_files.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace torch_distinput {
namespace {

constexpr int kOldestLooks = 2;
constexpr std::size_t kMostParts = 16;
/// A part of fewer files would be full of those of one object while others have room.
constexpr std::size_t kLeastOfPart = 64;

std::uint64_t next_id() noexcept {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

std::size_t parts_for(std::size_t most) {
  return std::clamp<std::size_t>(most / kLeastOfPart, 1, kMostParts);
}

}  // namespace

OpenFiles::OpenFiles(std::size_t most, std::size_t most_of_thread)
    : id_(next_id()), most_of_thread_(most_of_thread), parts_(parts_for(most)), most_(most / parts_.size()) {}

/// A digest is as good as random already.
std::size_t OpenFiles::Hash::operator()(const Name& name) const noexcept {
  std::size_t first;
  std::memcpy(&first, name.second.data(), sizeof(first));
  return first + name.first;
}

OpenFiles::Part& OpenFiles::part_of(const Name& name) { return parts_[Hash()(name) % parts_.size()]; }

CacheFilePtr OpenFiles::get(const CacheKey& key, std::uint64_t number) {
  const Name name(number, key.digest);
  Part& part = part_of(name);
  CacheFilePtr file;
  {
    const std::lock_guard lock(part.mutex);
    const auto found = part.entries.find(name);
    if (found == part.entries.end()) return nullptr;
    found->second.used = ++part.uses;
    file = found->second.file;
  }
  if (!file->was_removed()) return file;
  remove(key, number);
  return nullptr;
}

void OpenFiles::put(const CacheKey& key, CacheFilePtr file) {
  std::vector<CacheFilePtr> closed;  // declared before the lock: files are closed after the lock is released
  const Name name(file->number(), key.digest);
  Part& part = part_of(name);
  const std::lock_guard lock(part.mutex);
  if (!part.entries.try_emplace(name, Entry{std::move(file), ++part.uses}).second) return;
  for (int looks = 0; looks < kOldestLooks && part.entries.size() > 1; ++looks) {
    const auto oldest =
        std::min_element(part.entries.begin(), part.entries.end(),
                         [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    if (part.entries.size() <= most_ && !oldest->second.file->was_removed()) return;
    closed.push_back(std::move(oldest->second.file));
    part.entries.erase(oldest);
  }
}

OpenFiles::OfThread& OpenFiles::of_thread() {
  thread_local OfThread known;
  if (known.owner != id_ || known.guard.inherited()) {
    known.owner = id_;
    known.guard = ForkGuard();
    known.entries.clear();
    known.entries.resize(most_of_thread_);
  }
  return known;
}

/// Closes a file that was removed, if the next one is.
void OpenFiles::OfThread::drop_if_removed() {
  CacheFilePtr& file = entries[looked_at++ % entries.size()].file;
  if (file != nullptr && file->was_removed()) file = nullptr;
}

bool OpenFiles::read_checked(const CacheKey& key, std::uint64_t number, std::span<char> into,
                             std::uint64_t offset) {
  const Name name(number, key.digest);
  OfThread& thread = of_thread();
  OfThread::Entry& known = thread.place_of(name);
  if (known.file != nullptr && known.name == name && known.file->read_checked(into, offset)) return true;
  thread.drop_if_removed();
  known = {name, get(key, number)};
  if (known.file != nullptr && known.file->read_checked(into, offset)) return true;
  known.file = nullptr;
  return false;
}

void OpenFiles::remove(const CacheKey& key, std::uint64_t number) {
  CacheFilePtr closed;
  const Name name(number, key.digest);
  Part& part = part_of(name);
  const std::lock_guard lock(part.mutex);
  const auto found = part.entries.find(name);
  if (found == part.entries.end()) return;
  closed = std::move(found->second.file);
  part.entries.erase(found);
}

}  // namespace torch_distinput
