// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cached_object.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/slow_reads.h"
#include "base/stage.h"
#include "remote/ahead_ledger.h"
#include "remote/announced_requests.h"
#include "remote/range_plan.h"
#include "remote/read_counts.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;

/// A reader that waits for another process to get a block looks again so often,
constexpr std::chrono::milliseconds kLookForBlock{2};
/// and gets the bytes itself after so long.
constexpr std::chrono::seconds kMostWait{3};
/// Blocks beyond, of 4 TiB, are looked for each time: the size of an object is the word of its server.
constexpr std::uint64_t kMostSeen = std::uint64_t{1} << 24;
/// A block that is damaged again and again is not read from this disk.
constexpr int kMostDamaged = 2;

std::uint64_t first_block(const ByteRange& range) { return range.offset / kCacheBlock; }
std::uint64_t end_block(const ByteRange& range) { return (range.end() + kCacheBlock - 1) / kCacheBlock; }

/// The part of a range that lies in a block.
ByteRange part_in(const ByteRange& range, const ByteRange& block) {
  const std::uint64_t begin = std::max(range.offset, block.offset);
  return {begin, std::min(range.end(), block.end()) - begin};
}

/// Of the bytes of `range`, those of `part`.
std::span<char> bytes_in(std::span<char> bytes, const ByteRange& range, const ByteRange& part) {
  return bytes.subspan(static_cast<std::size_t>(part.offset - range.offset),
                       static_cast<std::size_t>(part.size));
}

/// Bytes of the cache were read.
void note_kept(std::size_t bytes) {
  ReadCounts::of_process().cached.add(static_cast<std::int64_t>(bytes));
  note_object_read();
}

/// Waits until it is time to look for a block again; looks for an interrupt.
class BlockWait {
 public:
  explicit BlockWait(const Poll& poll) : poll_(poll) {}
  /// False: it took too long.
  bool again() {
    const Clock::time_point now = Clock::now();
    if (now - began_ > kMostWait) return false;
    std::this_thread::sleep_for(kLookForBlock);
    if (poll_ && now - polled_ >= kPollInterval) {
      polled_ = now;
      poll_();
    }
    return true;
  }

 private:
  const Poll& poll_;
  Clock::time_point began_ = Clock::now();
  Clock::time_point polled_ = began_;
};

}  // namespace

std::shared_ptr<CachedObject> CachedObject::make(std::shared_ptr<RemoteObject> origin, DiskCache& cache) {
  std::shared_ptr<CachedObject> object(new CachedObject(std::move(origin), cache));
  object->origin_->set_arrival([weak = object->weak_from_this(), &cache](const auto& transfer) {
    if (const auto self = weak.lock()) cache.post([self, transfer] { self->take(*transfer); });
  });
  object->note_use();
  return object;
}

CachedObject::CachedObject(std::shared_ptr<RemoteObject> origin, DiskCache& cache)
    : origin_(std::move(origin)), cache_(cache), key_(cache_key(origin_->url(), origin_->version())) {}

/// What is used now is not removed for others.
void CachedObject::note_use() const noexcept {
  if (const CacheRoot* const root = cache_.root())
    ::utimensat(root->number(), key_.folder.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

void CachedObject::will_read(std::span<const ByteRange> all) {
  const CacheRoot* const root = cache_.root();
  if (root == nullptr) return origin_->will_read(all);
  if (has_seen_all()) return;
  // The size of an object is the word of its server.
  const std::vector<ByteRange> ranges = first_bytes(all, AheadLedger::kMostBytes);
  const bool is_forecast = AnnouncedRequests::current() != nullptr;
  std::vector<ByteRange> alone;
  std::vector<ByteRange> blocks;
  // Ranges that follow each other are often of one block.
  std::uint64_t looked_at = 0;
  std::optional<BlockClaim::State> found;
  for (const ByteRange& range : ranges) {
    if (range.offset >= version().size || range.size == 0) continue;
    const ByteRange inside{range.offset, std::min(range.size, version().size - range.offset)};
    for (std::uint64_t block = first_block(inside); block < end_block(inside); ++block) {
      const ByteRange whole = block_range(block, version().size);
      if (!found || block != looked_at) {
        looked_at = block;
        found = is_there(*root, block) ? BlockClaim::State::kThere
                : is_forecast          ? BlockClaim::State::kMine
                                       : begin_ahead(block);
        if (found == BlockClaim::State::kMine) blocks.push_back(whole);
      }
      const bool is_others = found == BlockClaim::State::kBusy && !cache_.may_wait();
      if (is_others || found == BlockClaim::State::kNoRoom || found == BlockClaim::State::kFailed)
        alone.push_back(part_in(inside, whole));
    }
  }
  if (!alone.empty()) origin_->will_read(alone);
  if (is_forecast) return origin_->will_read(blocks);
  ask_for(blocks);
}

/// Whether nothing would be asked for, whatever is read.
bool CachedObject::has_seen_all() {
  const std::uint64_t seen = window_.get().seen_blocks.load(std::memory_order_relaxed);
  return seen * kCacheBlock >= version().size;
}

/// Whether a block was kept.
bool CachedObject::is_there(const CacheRoot& root, std::uint64_t block) {
  Window& window = window_.get();
  {
    const std::lock_guard lock(window.mutex);
    if (block < window.seen.size() && window.seen[block]) return true;
  }
  CacheFilePtr file;
  const CacheFile::State state = open_file(root, file_of(block), file);
  if (state == CacheFile::State::kDamaged && root.is_writable()) remove_damaged(root, block, nullptr);
  if (state != CacheFile::State::kThere || !file->has(block)) return false;
  note_seen(block, true);
  return true;
}

void CachedObject::note_seen(std::uint64_t block, bool is_there) {
  Window& window = window_.get();
  const std::lock_guard lock(window.mutex);
  if (block >= kMostSeen) return;
  if (block >= window.seen.size()) window.seen.resize(static_cast<std::size_t>(block + 1));
  if (window.seen[block] == is_there) return;
  window.seen[block] = is_there;
  window.seen_blocks += is_there ? 1 : -1;
}

/// Takes the claim of a block that nobody waits for yet; whoever reads it will, also where another process
/// gets it.
BlockClaim::State CachedObject::begin_ahead(std::uint64_t block) {
  note_slow_read();
  return begin_fill(block, /*is_ahead=*/true);
}

/// Takes the claim of a block that the caller then asks for. kThere also where it is coming already.
BlockClaim::State CachedObject::begin_fill(std::uint64_t block, bool is_ahead) {
  Window& window = window_.get();
  const std::lock_guard lock(window.mutex);
  if (window.fills.contains(block)) return BlockClaim::State::kThere;
  auto fill = std::make_shared<Fill>();
  const BlockClaim::State state = cache_.claim(key_, block, is_ahead, fill->claim);
  if (state != BlockClaim::State::kMine) return state;
  fill->owner = shared_from_this();
  fill->missing.add(block_range(block, version().size));
  window.fills.emplace(block, std::move(fill));
  return state;
}

void CachedObject::ask_for(std::span<const ByteRange> blocks) {
  if (blocks.empty()) return;
  const AheadClaim::Scope scope(asked_);
  try {
    origin_->will_take(blocks);
  } catch (...) {
    for (const ByteRange& block : blocks) finish(first_block(block), {});
    throw;
  }
}

std::size_t CachedObject::read(std::span<char> into, std::uint64_t offset, const Poll& poll) {
  if (offset >= version().size) return 0;
  into = into.first(static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), version().size - offset)));
  if (into.empty()) return 0;
  const ByteRange range{offset, into.size()};
  bool is_announced = false;
  for (std::uint64_t file = offset / kFileRange; file * kFileRange < range.end(); ++file) {
    const ByteRange part = part_in(range, file_range(file, version().size));
    const std::span<char> bytes = bytes_in(into, range, part);
    if (read_checked(bytes, part.offset)) continue;
    if (!std::exchange(is_announced, true)) announce_rest({part.offset, range.end() - part.offset});
    read_blocks(bytes, part.offset, poll);
  }
  return into.size();
}

/// What is read block by block is asked for at once.
void CachedObject::announce_rest(const ByteRange& range) {
  if (end_block(range) - first_block(range) > 1) will_read({&range, 1});
}

/// Reads bytes of one file with one call, which takes less time than one for each block, where they were read
/// before.
bool CachedObject::read_checked(std::span<char> into, std::uint64_t offset) {
  if (cache_.root() == nullptr) return false;
  if (!cache_.open_files().read_checked(key_, offset / kFileRange, into, offset)) return false;
  note_kept(into.size());
  return true;
}

void CachedObject::read_blocks(std::span<char> into, std::uint64_t offset, const Poll& poll) {
  const ByteRange range{offset, into.size()};
  for (std::uint64_t block = first_block(range); block < end_block(range); ++block) {
    const ByteRange part = part_in(range, block_range(block, version().size));
    read_block(block, bytes_in(into, range, part), part.offset, poll);
  }
}

void CachedObject::read_block(std::uint64_t block, std::span<char> into, std::uint64_t offset,
                              const Poll& poll) {
  std::optional<BlockWait> wait;
  for (int damaged = 0; damaged < kMostDamaged;) {
    const CacheRoot* const root = cache_.root();
    if (root == nullptr) break;
    const CacheFile::State kept = read_kept(*root, block, into, offset);
    if (kept == CacheFile::State::kThere) return;
    if (kept == CacheFile::State::kUnreadable) break;
    if (kept == CacheFile::State::kDamaged) ++damaged;
    if (read_coming(block, into, offset, poll)) return;
    const BlockClaim::State state = begin_fill(block, /*is_ahead=*/false);
    if (state == BlockClaim::State::kNoRoom || state == BlockClaim::State::kFailed) break;
    if (state == BlockClaim::State::kMine) {
      const ByteRange whole = block_range(block, version().size);
      ask_for({&whole, 1});
    }
    if (state != BlockClaim::State::kBusy) continue;
    if (!cache_.may_wait()) break;
    if (!wait) wait.emplace(poll);
    if (!wait->again()) cache_.waited_in_vain();
  }
  origin_->read(into, offset, poll);
}

/// Opens a file of the cache, unless it is open.
CacheFile::State CachedObject::open_file(const CacheRoot& root, std::uint64_t number, CacheFilePtr& file) {
  OpenFiles& files = cache_.open_files();
  file = files.get(key_, number);
  if (file != nullptr) return CacheFile::State::kThere;
  const CacheFile::State state = CacheFile::open(root, key_, number, file);
  if (state == CacheFile::State::kThere) files.put(key_, file);
  return state;
}

/// Reads a block of the cache. What is damaged is removed.
CacheFile::State CachedObject::read_kept(const CacheRoot& root, std::uint64_t block, std::span<char> into,
                                         std::uint64_t offset) {
  CacheFilePtr file;
  CacheFile::State state = open_file(root, file_of(block), file);
  if (state == CacheFile::State::kThere) state = file->read(into, offset);
  if (state == CacheFile::State::kThere) {
    note_kept(into.size());
  } else {
    note_seen(block, false);
  }
  if (state == CacheFile::State::kDamaged) remove_damaged(root, block, file);
  return state;
}

/// Removes a block of `file`, or, where that is null, the file that cannot be opened.
void CachedObject::remove_damaged(const CacheRoot& root, std::uint64_t block, const CacheFilePtr& file) {
  ReadCounts::of_process().damaged_blocks.add();
  const std::uint64_t number = file_of(block);
  cache_.open_files().remove(key_, number);
  if (!root.is_writable()) return;
  if (file != nullptr) {
    remove_block(root, key_, block);
  } else {
    remove_file(root, file_path(key_, number));
  }
}

/// Reads bytes of a block that this process gets; false where it does not.
bool CachedObject::read_coming(std::uint64_t block, std::span<char> into, std::uint64_t offset,
                               const Poll& poll) {
  Window& window = window_.get();
  FillPtr fill;
  {
    const std::lock_guard lock(window.mutex);
    const auto found = window.fills.find(block);
    if (found == window.fills.end()) return false;
    fill = found->second;
    ++fill->readers;
  }
  const auto leave = [&] {
    bool is_last = false;
    {
      const std::lock_guard lock(window.mutex);
      is_last = --fill->readers == 0 && fill->is_over;
    }
    const AheadClaim::Scope scope(asked_);
    if (is_last) origin_->let_go(block_range(block, version().size));
  };
  try {
    origin_->read(into, offset, poll);
  } catch (...) {
    leave();
    throw;
  }
  leave();
  return true;
}

/// Takes what has come, on the thread of the cache.
void CachedObject::take(const RangeTransfer& transfer) noexcept {
  const ByteRange& range = transfer.range();
  const bool has_failed = transfer.has_failed();
  Window& window = window_.get();
  std::vector<std::pair<std::uint64_t, FillPtr>> coming;
  {
    const std::lock_guard lock(window.mutex);
    for (auto next = window.fills.lower_bound(first_block(range));
         next != window.fills.end() && next->first < end_block(range); ++next) {
      coming.push_back(*next);
    }
  }
  for (const auto& [block, fill] : coming) {
    if (has_failed) {
      finish(block, {});
    } else {
      take(block, *fill, transfer);
    }
  }
}

/// Takes what has come of a block. Nobody else touches its bytes.
void CachedObject::take(std::uint64_t block, Fill& fill, const RangeTransfer& transfer) noexcept {
  const ByteRange whole = block_range(block, version().size);
  const ByteRange part = part_in(transfer.range(), whole);
  const auto come = transfer.bytes().subspan(static_cast<std::size_t>(part.offset - transfer.range().offset),
                                             static_cast<std::size_t>(part.size));
  if (part.size == whole.size) return finish(block, come);
  fill.bytes.resize(static_cast<std::size_t>(whole.size));
  std::memcpy(fill.bytes.data() + (part.offset - whole.offset), come.data(), come.size());
  fill.missing.remove(part);
  if (fill.missing.empty()) finish(block, fill.bytes);
}

/// Keeps the bytes of a block, unless there are none, and ends its claim.
void CachedObject::finish(std::uint64_t block, std::span<const char> bytes) noexcept {
  Window& window = window_.get();
  FillPtr fill;
  {
    const std::lock_guard lock(window.mutex);
    const auto found = window.fills.find(block);
    if (found == window.fills.end() || std::exchange(found->second->is_ending, true)) return;
    fill = found->second;
  }
  if (cache_.end(key_, block, fill->claim, bytes)) {
    ReadCounts::of_process().cached_blocks.add();
  } else if (!bytes.empty()) {
    cache_.turn_off("a block cannot be written to " + cache_.folder());
  }
  bool is_last = false;
  {
    const std::lock_guard lock(window.mutex);
    window.fills.erase(block);
    fill->is_over = true;
    is_last = fill->readers == 0;
  }
  const AheadClaim::Scope scope(asked_);
  if (is_last) origin_->let_go(block_range(block, version().size));
}

}  // namespace torch_distinput
