// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_block.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "io/crc32c.h"
#include "io/file_bytes.h"

namespace torch_distinput {
namespace {

constexpr std::array<char, 8> kBlockMagic{'T', 'D', 'I', 'C', 'A', 'C', 'H', 'E'};
constexpr std::uint32_t kBlockFormat = 1;
/// No head has more bytes.
constexpr std::uint64_t kMostHead = 4096;

/// A head has a multiple of so many bytes: the kernel copies bytes that lie like their destination in a third
/// less time.
constexpr std::uint64_t kAlignment = 64;

/// The head begins so; URL, tag, CRCs of pages, zeros, and the CRC of all this follow.
struct BlockHead {
  std::array<char, 8> magic = kBlockMagic;
  std::uint32_t format = kBlockFormat;
  std::uint32_t pages = 0;
  std::uint64_t object_size = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  Sha256 digest{};
  std::uint32_t url_bytes = 0;
  std::uint32_t tag_bytes = 0;
};

std::uint64_t pages_of(std::uint64_t bytes) { return (bytes + kCachePage - 1) / kCachePage; }

/// The head up to the CRCs.
std::vector<char> head_front(const CacheKey& key, const ByteRange& range) {
  const BlockHead head{.pages = static_cast<std::uint32_t>(pages_of(range.size)),
                       .object_size = key.size,
                       .offset = range.offset,
                       .size = range.size,
                       .digest = key.digest,
                       .url_bytes = static_cast<std::uint32_t>(key.url.size()),
                       .tag_bytes = static_cast<std::uint32_t>(key.tag.size())};
  const std::span<const char> fixed = bytes_of_object(head);
  std::vector<char> front(fixed.begin(), fixed.end());
  front.insert(front.end(), key.url.begin(), key.url.end());
  front.insert(front.end(), key.tag.begin(), key.tag.end());
  return front;
}

/// Bytes of a head with texts of so many bytes.
std::uint64_t head_bytes_of(std::uint64_t texts, std::uint64_t pages) {
  const std::uint64_t bytes = sizeof(BlockHead) + texts + (pages + 1) * sizeof(std::uint32_t);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::uint64_t head_bytes_of(const CacheKey& key, std::uint64_t size) {
  return head_bytes_of(key.url.size() + key.tag.size(), pages_of(size));
}

/// The bytes of page `page` among those of a block.
template <class Bytes>
std::span<Bytes> page_of(std::span<Bytes> bytes, std::uint64_t page) {
  const std::span<Bytes> rest = bytes.subspan(static_cast<std::size_t>(page * kCachePage));
  return rest.first(std::min<std::size_t>(rest.size(), kCachePage));
}

/// The bits of these pages.
std::uint32_t pages_between(std::uint32_t first, std::uint32_t last) {
  return (std::uint32_t{2} << last) - (std::uint32_t{1} << first);
}

void append(std::vector<char>& head, std::uint32_t check) {
  const std::span<const char> bytes = bytes_of_object(check);
  head.insert(head.end(), bytes.begin(), bytes.end());
}

/// Whether the last bytes of a head are the CRC of the others.
bool is_whole_head(std::span<const char> head) {
  std::uint32_t check;
  const std::span<const char> front = head.first(head.size() - sizeof(check));
  std::memcpy(&check, head.data() + front.size(), sizeof(check));
  return crc32c(front) == check;
}

/// Why the file of a block could not be opened. A link in its place is none of ours.
CacheBlock::State state_of_error(int code) {
  if (code == ENOENT || code == ENOTDIR) return CacheBlock::State::kNone;
  return code == ELOOP ? CacheBlock::State::kDamaged : CacheBlock::State::kUnreadable;
}

/// A number that grows every few milliseconds, as the times of files do.
std::int64_t tick() {
  ::timespec now;
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

ByteRange block_range(std::uint64_t number, std::uint64_t size) {
  const std::uint64_t offset = number * kCacheBlock;
  return {offset, std::min(kCacheBlock, size - offset)};
}

std::string block_path(const CacheKey& key, std::uint64_t number) {
  return key.folder + "/" + std::to_string(number);
}

std::uint64_t block_file_bytes(const CacheKey& key, std::uint64_t number) {
  const std::uint64_t size = block_range(number, key.size).size;
  return head_bytes_of(key, size) + size;
}

std::vector<char> block_head(const CacheKey& key, std::uint64_t number, std::span<const char> bytes) {
  const ByteRange range = block_range(number, key.size);
  std::vector<char> head = head_front(key, range);
  for (std::uint64_t page = 0; page < pages_of(range.size); ++page)
    append(head, crc32c(page_of(bytes, page)));
  head.resize(static_cast<std::size_t>(head_bytes_of(key, range.size)) - sizeof(std::uint32_t));
  append(head, crc32c(head));
  return head;
}

std::optional<BlockOwner> block_owner(int file) {
  BlockHead head;
  if (!read_at(file, bytes_of_object(head), 0) || head.magic != kBlockMagic || head.format != kBlockFormat)
    return std::nullopt;
  const std::uint64_t texts = std::uint64_t{head.url_bytes} + head.tag_bytes;
  const std::uint64_t bytes = head_bytes_of(texts, head.pages);
  if (bytes > kMostHead) return std::nullopt;
  std::vector<char> all(static_cast<std::size_t>(bytes));
  if (!read_at(file, all, 0) || !is_whole_head(all)) return std::nullopt;
  const std::string_view text(all.data() + sizeof(head), static_cast<std::size_t>(texts));
  return BlockOwner{.url = std::string(text.substr(0, head.url_bytes)),
                    .tag = std::string(text.substr(head.url_bytes)),
                    .size = head.object_size};
}

CacheBlock::State CacheBlock::open(const CacheRoot& root, const CacheKey& key, std::uint64_t number,
                                   std::shared_ptr<const CacheBlock>& block) {
  const ByteRange range = block_range(number, key.size);
  const std::string path = block_path(key, number);
  Descriptor file(::openat(root.number(), path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.open()) return state_of_error(errno);
  struct ::stat status;
  if (::fstat(file.number(), &status) != 0 || !root.trusts(status) ||
      static_cast<std::uint64_t>(status.st_size) != block_file_bytes(key, number)) {
    return State::kDamaged;
  }
  const std::vector<char> front = head_front(key, range);
  std::vector<char> head(static_cast<std::size_t>(head_bytes_of(key, range.size)));
  if (!read_at(file.number(), head, 0) || !std::equal(front.begin(), front.end(), head.begin()) ||
      !is_whole_head(head)) {
    return State::kDamaged;
  }
  std::vector<std::uint32_t> checks(static_cast<std::size_t>(pages_of(range.size)));
  std::memcpy(checks.data(), head.data() + front.size(), checks.size() * sizeof(std::uint32_t));
  block.reset(new CacheBlock(std::move(file), number, range, std::move(checks), head.size(), status.st_ctim));
  return State::kThere;
}

CacheBlock::CacheBlock(Descriptor file, std::uint64_t number, const ByteRange& range,
                       std::vector<std::uint32_t> checks, std::uint64_t head_bytes, const ::timespec& changed)
    : file_(std::move(file)),
      number_(number),
      range_(range),
      checks_(std::move(checks)),
      head_bytes_(head_bytes),
      changed_(changed) {}

bool CacheBlock::read(std::span<char> into, std::uint64_t offset) const {
  offset -= range_.offset;
  const Pages first = offset / kCachePage;
  const Pages last = (offset + into.size() - 1) / kCachePage;
  const bool is_same = !has_changed();
  const Pages checked = is_same ? checked_.load(std::memory_order_relaxed) : 0;
  while (!into.empty()) {
    const std::size_t size = next_size(checked, offset, into.size());
    if (!read_piece(checked, into.first(size), offset)) return false;
    into = into.subspan(size);
    offset += size;
  }
  if (is_same) checked_.fetch_or(pages_between(first, last), std::memory_order_relaxed);
  return true;
}

/// Whether anybody has written to the file, or to what the system knows of it, since it was opened. Looks
/// once a tick: a look costs as much as reading a few kB, and the times of files tell ticks apart only.
bool CacheBlock::has_changed() const {
  const std::int64_t now = tick();
  if (same_at_.load(std::memory_order_relaxed) == now) return false;
  struct ::stat status;
  if (::fstat(file_.number(), &status) != 0 || status.st_ctim.tv_sec != changed_.tv_sec ||
      status.st_ctim.tv_nsec != changed_.tv_nsec) {
    return true;
  }
  same_at_.store(now, std::memory_order_relaxed);
  return false;
}

/// How many of `size` bytes from `offset` on can be read at once: those of pages that were checked, those of
/// whole pages that were not, or part of one such page.
std::size_t CacheBlock::next_size(Pages checked, std::uint64_t offset, std::size_t size) const {
  const std::uint64_t end = offset + size;
  const bool is_checked = (checked >> offset / kCachePage & 1) != 0;
  std::uint64_t next = (offset / kCachePage + 1) * kCachePage;
  if (!is_checked && (offset % kCachePage != 0 || std::min(next, range_.size) > end))
    return static_cast<std::size_t>(std::min(next, end) - offset);
  while (next < end && ((checked >> next / kCachePage & 1) != 0) == is_checked &&
         (is_checked || std::min(next + kCachePage, range_.size) <= end)) {
    next += kCachePage;
  }
  return static_cast<std::size_t>(std::min(next, end) - offset);
}

/// Reads what `next_size` has cut.
bool CacheBlock::read_piece(Pages checked, std::span<char> into, std::uint64_t offset) const {
  const std::uint64_t page = offset / kCachePage;
  if ((checked >> page & 1) != 0) return read_at(file_.number(), into, head_bytes_ + offset);
  const bool is_part = offset % kCachePage != 0 || into.size() < std::min(kCachePage, range_.size - offset);
  if (is_part) return read_part(page, into, offset % kCachePage);
  return read_at(file_.number(), into, head_bytes_ + offset) && is_whole(page, into);
}

/// Reads bytes of one page from `offset` on, and checks all of it.
bool CacheBlock::read_part(std::uint64_t page, std::span<char> into, std::uint64_t offset) const {
  std::array<char, kCachePage> memory;
  const std::uint64_t begin = page * kCachePage;
  const auto bytes = std::span(memory).first(std::min<std::size_t>(kCachePage, range_.size - begin));
  if (!read_at(file_.number(), bytes, head_bytes_ + begin) || !is_whole(page, bytes)) return false;
  std::memcpy(into.data(), bytes.data() + offset, into.size());
  return true;
}

/// Whether the CRCs of these pages are right.
bool CacheBlock::is_whole(std::uint64_t first_page, std::span<const char> bytes) const {
  for (std::uint64_t page = 0; page < pages_of(bytes.size()); ++page) {
    if (crc32c(page_of(bytes, page)) != checks_[first_page + page]) return false;
  }
  return true;
}

}  // namespace torch_distinput
