// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/slow_reads.h"
#include "io/crc32c.h"
#include "io/file_bytes.h"

namespace torch_distinput {
namespace {

constexpr std::array<char, 8> kFileMagic{'T', 'D', 'I', 'C', 'A', 'C', 'H', 'E'};
constexpr std::uint32_t kFileFormat = 2;
constexpr std::uint32_t kBlockMagic = 0x4b4c4254;
/// The heads of blocks lie from here on, one every so many bytes.
constexpr std::uint64_t kBlockHeads = 2048;
constexpr std::uint64_t kBlockHeadStep = 128;

/// A file begins so; URL, tag, and the CRC of all this follow.
struct FileHead {
  std::array<char, 8> magic = kFileMagic;
  std::uint32_t format = kFileFormat;
  std::uint32_t url_bytes = 0;
  std::uint64_t object_size = 0;
  std::uint64_t number = 0;
  Sha256 digest{};
  std::uint32_t tag_bytes = 0;
  std::uint32_t unused = 0;
};

struct BlockHead {
  std::uint32_t magic = 0;
  PageChecks checks{};
  std::uint32_t check = 0;  ///< of the above, and whose they are
};
static_assert(sizeof(BlockHead) <= kBlockHeadStep);
static_assert(kBlockHeads + kFileBlocks * kBlockHeadStep <= kFileHead);
static_assert(kBlockPages <= 32);

std::uint32_t check_of(const BlockHead& head, const CacheKey& key, std::uint64_t block) {
  const std::uint32_t of_key = crc32c(bytes_of_object(block), crc32c(bytes_of_object(key.digest)));
  return crc32c(bytes_of_object(head).first(offsetof(BlockHead, check)), of_key);
}

std::uint64_t head_of(std::uint64_t block) { return kBlockHeads + block % kFileBlocks * kBlockHeadStep; }

std::uint64_t pages_of(std::uint64_t bytes) { return (bytes + kCachePage - 1) / kCachePage; }

/// The bytes of page `page` among those of a block.
template <class Bytes>
std::span<Bytes> page_of(std::span<Bytes> bytes, std::uint64_t page) {
  const std::span<Bytes> rest = bytes.subspan(static_cast<std::size_t>(page * kCachePage));
  return rest.first(std::min<std::size_t>(rest.size(), kCachePage));
}

/// The bits of these pages.
std::uint32_t pages_between(std::uint64_t first, std::uint64_t last) {
  return (std::uint32_t{2} << last) - (std::uint32_t{1} << first);
}

/// Whether pages from `first` on have these CRCs.
bool are_right(std::span<const char> pages, const PageChecks& checks, std::uint64_t first) {
  for (std::uint64_t page = 0; page < pages_of(pages.size()); ++page) {
    if (crc32c(page_of(pages, page)) != checks[first + page]) return false;
  }
  return true;
}

/// Why a file could not be opened. A link in its place is none of ours.
CacheFile::State state_of_error(int code) {
  if (code == ENOENT || code == ENOTDIR) return CacheFile::State::kNone;
  return code == ELOOP ? CacheFile::State::kDamaged : CacheFile::State::kUnreadable;
}

/// A number that grows every few milliseconds, as the times of files do.
std::int64_t tick() {
  ::timespec now;
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::int64_t change_of(const struct ::stat& status) {
  return std::int64_t{status.st_ctim.tv_sec} * 1'000'000'000 + status.st_ctim.tv_nsec;
}

}  // namespace

ByteRange block_range(std::uint64_t block, std::uint64_t size) {
  const std::uint64_t offset = block * kCacheBlock;
  return {offset, std::min(kCacheBlock, size - offset)};
}

ByteRange file_range(std::uint64_t file, std::uint64_t size) {
  const std::uint64_t offset = file * kFileRange;
  return {offset, std::min(kFileRange, size - offset)};
}

std::string file_path(const CacheKey& key, std::uint64_t file) {
  return key.folder + "/" + std::to_string(file);
}

std::uint64_t file_bytes(const CacheKey& key, std::uint64_t file) {
  return kFirstPlace + file_range(file, key.size).size;
}

ByteRange place_in_file(std::uint64_t block, std::uint64_t size) {
  return {kFirstPlace + block % kFileBlocks * kCacheBlock, block_range(block, size).size};
}

std::array<char, kFileHead> file_head(const CacheKey& key, std::uint64_t file) {
  const FileHead head{.url_bytes = static_cast<std::uint32_t>(key.url.size()),
                      .object_size = key.size,
                      .number = file,
                      .digest = key.digest,
                      .tag_bytes = static_cast<std::uint32_t>(key.tag.size())};
  const std::span<const char> fixed = bytes_of_object(head);
  std::array<char, kFileHead> bytes{};
  auto end = std::copy(fixed.begin(), fixed.end(), bytes.begin());
  end = std::copy(key.url.begin(), key.url.end(), end);
  end = std::copy(key.tag.begin(), key.tag.end(), end);
  const std::uint32_t check = crc32c({bytes.begin(), end});
  const std::span<const char> checked = bytes_of_object(check);
  std::copy(checked.begin(), checked.end(), end);
  return bytes;
}

bool is_file_of(int file, const CacheKey& key, std::uint64_t number) {
  struct ::stat status;
  if (::fstat(file, &status) != 0 || static_cast<std::uint64_t>(status.st_size) != file_bytes(key, number)) {
    return false;
  }
  const std::array<char, kFileHead> right = file_head(key, number);
  std::array<char, kBlockHeads> found;
  return read_at(file, found, 0) && std::equal(found.begin(), found.end(), right.begin());
}

bool write_block_head(int file, const CacheKey& key, std::uint64_t block,
                      std::span<const char> bytes) noexcept {
  BlockHead head{.magic = kBlockMagic};
  for (std::uint64_t page = 0; page < pages_of(bytes.size()); ++page)
    head.checks[page] = crc32c(page_of(bytes, page));
  head.check = check_of(head, key, block);
  return write_at(file, bytes_of_object(std::as_const(head)), head_of(block));
}

void remove_block_head(int file, std::uint64_t block) noexcept {
  const BlockHead none;
  write_at(file, bytes_of_object(none), head_of(block));
}

bool has_blocks(int file) noexcept {
  std::array<char, kFileHead - kBlockHeads> heads;
  return !read_at(file, heads, kBlockHeads) ||
         std::any_of(heads.begin(), heads.end(), [](char byte) { return byte != 0; });
}

std::optional<PageChecks> read_block_head(int file, const CacheKey& key, std::uint64_t block) noexcept {
  BlockHead head;
  if (!read_at(file, bytes_of_object(head), head_of(block)) || head.magic != kBlockMagic ||
      head.check != check_of(head, key, block)) {
    return std::nullopt;
  }
  return head.checks;
}

std::optional<FileOwner> file_owner(int file) {
  FileHead head;
  if (!read_at(file, bytes_of_object(head), 0) || head.magic != kFileMagic || head.format != kFileFormat)
    return std::nullopt;
  const std::uint64_t texts = std::uint64_t{head.url_bytes} + head.tag_bytes;
  if (sizeof(head) + texts + sizeof(std::uint32_t) > kBlockHeads) return std::nullopt;
  std::string text(static_cast<std::size_t>(texts), '\0');
  if (!read_at(file, text, sizeof(head))) return std::nullopt;
  FileOwner owner{.key = {.url = text.substr(0, head.url_bytes),
                          .tag = text.substr(head.url_bytes),
                          .size = head.object_size,
                          .digest = head.digest,
                          .folder = {}},
                  .number = head.number};
  const bool has_room = head.number <= owner.key.size / kFileRange;
  return has_room && is_file_of(file, owner.key, owner.number) ? std::optional(std::move(owner))
                                                               : std::nullopt;
}

CacheFile::State CacheFile::open(const CacheRoot& root, const CacheKey& key, std::uint64_t number,
                                 std::shared_ptr<const CacheFile>& file) {
  const std::string path = file_path(key, number);
  Descriptor opened(::openat(root.number(), path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!opened.open()) return state_of_error(errno);
  struct ::stat status;
  if (::fstat(opened.number(), &status) != 0 || !root.trusts(status) ||
      !is_file_of(opened.number(), key, number)) {
    return State::kDamaged;
  }
  file.reset(new CacheFile(std::move(opened), key, number, change_of(status)));
  return State::kThere;
}

CacheFile::CacheFile(Descriptor file, CacheKey key, std::uint64_t number, std::int64_t changed)
    : file_(std::move(file)), changed_(changed), number_(number), key_(std::move(key)) {}

bool CacheFile::has(std::uint64_t number) const {
  Block& block = this->block(number);
  if (block.is_there.load(std::memory_order_acquire)) return true;
  const std::optional<PageChecks> checks = read_block_head(file_.number(), key_, number);
  if (!checks) return false;
  const std::lock_guard lock(mutex_);
  if (block.is_there.load(std::memory_order_relaxed)) return true;
  block.checks = *checks;
  block.is_there.store(true, std::memory_order_release);
  return true;
}

CacheFile::State CacheFile::read(std::span<char> into, std::uint64_t offset) const {
  const std::uint64_t number = offset / kCacheBlock;
  if (!has(number)) return State::kNone;
  Block& block = this->block(number);
  const ByteRange place = place_in_file(number, key_.size);
  offset %= kCacheBlock;
  const std::uint32_t wanted = pages_between(offset / kCachePage, (offset + into.size() - 1) / kCachePage);
  const std::optional<std::int64_t> change = last_change();
  const std::uint32_t were_checked = change ? checked(number).load(std::memory_order_relaxed) : 0;
  while (!into.empty()) {
    const Piece piece = next_piece(were_checked, place.size, offset, into.size());
    if (!read_piece(piece, place, block.checks, into.first(piece.size), offset)) return State::kDamaged;
    into = into.subspan(piece.size);
    offset += piece.size;
  }
  if (change && (were_checked & wanted) != wanted) {
    const std::lock_guard lock(mutex_);
    if (changed_.load(std::memory_order_relaxed) == *change) checked(number) |= wanted;
  }
  return State::kThere;
}

bool CacheFile::read_checked(std::span<char> into, std::uint64_t offset) const {
  if (!last_change() || was_removed_.load(std::memory_order_relaxed)) return false;
  const std::uint64_t end = offset + into.size();
  for (std::uint64_t number = offset / kCacheBlock; number * kCacheBlock < end; ++number) {
    const std::uint64_t begin = number * kCacheBlock;
    const std::uint64_t first = std::max(offset, begin) - begin;
    const std::uint64_t last = std::min(end - begin, kCacheBlock) - 1;
    const std::uint32_t wanted = pages_between(first / kCachePage, last / kCachePage);
    if ((checked(number).load(std::memory_order_relaxed) & wanted) != wanted) return false;
  }
  return read_range(into, kFirstPlace + offset % kFileRange);
}

/// Reads with one call what is in memory, as each call begins anew what makes copies fast, and else in
/// blocks: a disk reads the next one while this one is copied.
bool CacheFile::read_range(std::span<char> into, std::uint64_t place) const {
  if (!reads_slowly()) return read_at(file_.number(), into, place);
  while (!into.empty()) {
    const std::size_t size = std::min<std::size_t>(into.size(), kCacheBlock - place % kCacheBlock);
    if (!read_at(file_.number(), into.first(size), place)) return false;
    into = into.subspan(size);
    place += size;
  }
  return true;
}

bool CacheFile::was_removed() const {
  last_change();
  return was_removed_.load(std::memory_order_relaxed);
}

/// When anybody has written to the file last, or to what the system knows of it; nullopt where it does not
/// tell. What was checked before counts no more. Looks once a tick: a look costs as much as reading a few kB,
/// and the times of files tell ticks apart only.
std::optional<std::int64_t> CacheFile::last_change() const {
  const std::int64_t now = tick();
  if (looked_at_.load(std::memory_order_relaxed) != now) {
    struct ::stat status;
    if (::fstat(file_.number(), &status) != 0) return std::nullopt;
    if (status.st_nlink == 0) was_removed_.store(true, std::memory_order_relaxed);
    if (changed_.load(std::memory_order_relaxed) != change_of(status)) {
      const std::lock_guard lock(mutex_);
      for (auto& pages : checked_) pages.store(0, std::memory_order_relaxed);
      changed_.store(change_of(status), std::memory_order_release);
    }
    looked_at_.store(now, std::memory_order_relaxed);
  }
  return changed_.load(std::memory_order_acquire);
}

/// The bytes from `offset` of a block on, `size` at most, that can be read at once: those of pages that were
/// checked, those of whole pages that were not, or part of one such page.
CacheFile::Piece CacheFile::next_piece(std::uint32_t checked, std::uint64_t block_bytes, std::uint64_t offset,
                                       std::size_t size) {
  const std::uint64_t end = offset + size;
  const auto is_checked = [&](std::uint64_t page) { return (checked >> page & 1) != 0; };
  const bool is_first_checked = is_checked(offset / kCachePage);
  std::uint64_t next = (offset / kCachePage + 1) * kCachePage;
  const bool is_part = offset % kCachePage != 0 || std::min(next, block_bytes) > end;
  while ((is_first_checked || !is_part) && next < end && is_checked(next / kCachePage) == is_first_checked &&
         (is_first_checked || std::min(next + kCachePage, block_bytes) <= end)) {
    next += kCachePage;
  }
  return {static_cast<std::size_t>(std::min(next, end) - offset), is_first_checked};
}

/// Reads what `next_piece` has cut from the block that lies at `place`.
bool CacheFile::read_piece(const Piece& piece, const ByteRange& place, const PageChecks& checks,
                           std::span<char> into, std::uint64_t offset) const {
  if (piece.is_checked) return read_at(file_.number(), into, place.offset + offset);
  const bool is_part = offset % kCachePage != 0 || into.size() < std::min(kCachePage, place.size - offset);
  if (is_part) return read_part(place, checks, into, offset);
  return read_at(file_.number(), into, place.offset + offset) && are_right(into, checks, offset / kCachePage);
}

/// Reads bytes of one page, and checks all of it.
bool CacheFile::read_part(const ByteRange& place, const PageChecks& checks, std::span<char> into,
                          std::uint64_t offset) const {
  std::array<char, kCachePage> memory;
  const std::uint64_t page = offset / kCachePage;
  const std::uint64_t begin = page * kCachePage;
  const auto bytes = std::span(memory).first(std::min<std::size_t>(kCachePage, place.size - begin));
  if (!read_at(file_.number(), bytes, place.offset + begin) || !are_right(bytes, checks, page)) return false;
  std::memcpy(into.data(), bytes.data() + (offset - begin), into.size());
  return true;
}

}  // namespace torch_distinput
