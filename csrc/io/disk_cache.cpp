// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/disk_cache.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <sys/resource.h>

namespace torch_distinput {
namespace {

/// Where there was no room, there is none for so long.
constexpr std::chrono::seconds kFullFor{1};
/// A process that was waited for in vain is not waited for again for so long.
constexpr std::chrono::seconds kAloneFor{60};

}  // namespace

DiskCache::DiskCache(std::string folder, CacheLimits limits) : folder_(std::move(folder)), limits_(limits) {}

/// `most`, or a quarter of those that the process may open: for blocks that it gets at a time, and for those
/// that it has read.
std::size_t DiskCache::file_limit(std::size_t most) {
  ::rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 64;
  return static_cast<std::size_t>(std::clamp<::rlim_t>(files.rlim_cur / 4, 8, most));
}

const CacheRoot* DiskCache::root() {
  Opened& opened = opened_.get();
  if (const CacheRoot* const usable = opened.usable.load(std::memory_order_acquire)) return usable;
  std::string problem;
  std::string note;
  const CacheRoot* root = nullptr;
  {
    const std::lock_guard lock(opened.mutex);
    if (!opened.tried) {
      opened.tried = true;
      try {
        opened.root = CacheRoot::open(folder_, /*make=*/true);
        note = opened.root->note();
      } catch (const std::runtime_error& error) {
        problem = error.what();
      }
    }
    if (opened.problem.empty()) root = opened.root.get();
    opened.usable.store(root, std::memory_order_release);
  }
  if (!problem.empty()) turn_off(problem);
  if (!note.empty()) tell("the cache of remote bytes in " + folder_ + ": " + note);
  return root;
}

void DiskCache::turn_off(const std::string& problem) {
  Opened& opened = opened_.get();
  {
    const std::lock_guard lock(opened.mutex);
    if (!opened.problem.empty()) return;
    opened.problem = problem;
    opened.usable.store(nullptr, std::memory_order_release);
  }
  tell("the cache of remote bytes is off: " + problem + "; reading goes on without it");
}

void DiskCache::tell(const std::string& line) {
  if (const auto troubles = teller.load()) troubles(line);
}

bool DiskCache::is_full(Opened& opened) const {
  const std::lock_guard lock(opened.mutex);
  return std::chrono::steady_clock::now() < opened.full_until;
}

/// There is no room for a block of `bytes`: asks for some, and does not look again at once.
void DiskCache::find_full(const CacheRoot& root, Opened& opened, std::uint64_t bytes) {
  bool is_first = false;
  {
    const std::lock_guard lock(opened.mutex);
    is_first = !std::exchange(opened.told_full, true);
    opened.full_until = std::chrono::steady_clock::now() + kFullFor;
  }
  if (is_first)
    tell("the cache of remote bytes in " + folder_ + " has no room left: what it does not hold is not kept");
  post([&root, this, bytes] { make_room(root, limits_, bytes); });
}

CacheView DiskCache::view() {
  CacheView view{.folder = folder_, .problem = {}, .note = {}, .limits = limits_};
  const CacheRoot* const root = this->root();
  Opened& opened = opened_.get();
  if (root != nullptr) {
    view.is_shared = root->is_shared();
    view.note = root->note();
    view.bytes = used_room(*root);
  }
  const std::lock_guard lock(opened.mutex);
  view.problem = opened.problem;
  return view;
}

BlockClaim::State DiskCache::claim(const CacheKey& key, std::uint64_t block, bool is_ahead,
                                   std::shared_ptr<BlockClaim>& claim) {
  const CacheRoot* const root = this->root();
  if (root == nullptr) return BlockClaim::State::kFailed;
  if (!root->is_writable()) return BlockClaim::State::kNoRoom;
  Opened& opened = opened_.get();
  if (is_full(opened)) return BlockClaim::State::kNoRoom;
  const std::pair name(key.digest, block);
  {
    const std::lock_guard lock(opened.mutex);
    const bool is_too_many = is_ahead && opened.claims.size() >= file_limit(kMostClaims);
    if (is_too_many || !opened.claims.emplace(name, nullptr).second) return BlockClaim::State::kBusy;
  }
  std::optional<BlockClaim> taken;
  const BlockClaim::State state = BlockClaim::take(*root, limits_, key, block, taken);
  const int why = errno;
  {
    const std::lock_guard lock(opened.mutex);
    if (taken) {
      claim = opened.claims[name] = std::make_shared<BlockClaim>(*std::move(taken));
    } else {
      opened.claims.erase(name);
    }
  }
  if (state == BlockClaim::State::kNoRoom) find_full(*root, opened, place_in_file(block, key.size).size);
  if (state == BlockClaim::State::kFailed)
    turn_off(folder_ + " cannot be written to: " + std::generic_category().message(why));
  return state;
}

bool DiskCache::end(const CacheKey& key, std::uint64_t block, std::shared_ptr<BlockClaim>& claim,
                    std::span<const char> bytes) noexcept {
  Opened& opened = opened_.get();
  const std::shared_lock keeping(opened.keeping);
  if (opened.is_over) return true;  // `abandon` has given it up
  const bool is_kept = !bytes.empty() && claim->keep(key, bytes);
  claim->end();
  claim.reset();
  const std::lock_guard lock(opened.mutex);
  opened.claims.erase({key.digest, block});
  return is_kept;
}

bool DiskCache::may_wait() {
  Opened& opened = opened_.get();
  const std::lock_guard lock(opened.mutex);
  return std::chrono::steady_clock::now() >= opened.alone_until;
}

void DiskCache::waited_in_vain() {
  Opened& opened = opened_.get();
  const std::lock_guard lock(opened.mutex);
  opened.alone_until = std::chrono::steady_clock::now() + kAloneFor;
}

void DiskCache::post(const std::function<void()>& task) {
  try {
    opened_.get().keeper.post(task);
  } catch (const std::system_error&) {  // there are no more threads to be had
    task();
  }
}

void DiskCache::abandon() noexcept {
  Opened* const opened = opened_.known();
  if (opened == nullptr) return;
  const std::lock_guard keeping(opened->keeping);
  const std::lock_guard lock(opened->mutex);
  opened->is_over = true;
  if (opened->root == nullptr) return;
  for (const auto& [name, claim] : opened->claims) {
    if (claim != nullptr) claim->end();
  }
  opened->claims.clear();
  opened->root->remove_own();
}

}  // namespace torch_distinput
