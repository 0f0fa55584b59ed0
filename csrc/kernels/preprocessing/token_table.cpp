// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/preprocessing/token_table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <c10/macros/Macros.h>

#include "kernels/preprocessing/hashes.h"
#include "kernels/preprocessing/load_word.h"

namespace torch_distinput::preprocessing {
namespace {

constexpr std::size_t kFirstSlots = 16;
/// Slots that a look-up compares at a time: those of one cache line.
constexpr std::size_t kBucket = 2;
/// Look-ups whose memory is fetched at the same time: about as many as a core has line fill buffers.
constexpr std::size_t kAhead = 16;
constexpr std::size_t kShortBytes = 23;
/// Stands in the last byte of a key for a long string.
constexpr std::uint64_t kLong = 0xff;
constexpr unsigned kLastByte = 56;
constexpr std::uint64_t kPlaceMask = (std::uint64_t{1} << kLastByte) - 1;

/// The last `size` % 8 bytes of a string of `size` >= 8 bytes, then zeros.
std::uint64_t load_rest(const char* string, std::size_t size) noexcept {
  const std::size_t unused = 64 - size % 8 * 8;  // 64 bits do not fit one shift
  return load_word<std::uint64_t>(string + size - 8) >> 1 >> (unused - 1);
}

/// A string of up to 7 bytes, then zeros.
std::uint64_t load_small(const char* string, std::size_t size) noexcept {
  const auto part = [string]<class Word>(Word, std::size_t at) {
    return std::uint64_t{load_word<Word>(string + at)} << at * 8;
  };
  // The parts overlap, with the same bytes.
  if (size >= 4) return part(std::uint32_t{}, 0) | part(std::uint32_t{}, size - 4);
  if (size == 0) return 0;
  return part(std::uint8_t{}, 0) | part(std::uint8_t{}, size / 2) | part(std::uint8_t{}, size - 1);
}

/// The upper and the lower half of a product, which each depend on all bits of both factors.
std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product >> 64) ^ static_cast<std::uint64_t>(product);
}

std::uint64_t integer_hash(std::int64_t value) noexcept {
  std::uint64_t word = static_cast<std::uint64_t>(value) * 0x9e3779b97f4a7c15U;  // Fibonacci hashing
  return word ^ (word >> 32);
}

}  // namespace

// What a look-up runs is one function, so that a key stays in registers: calls would double its time.

std::string_view StringTable::operator[](std::int64_t number) const noexcept {
  const std::size_t begin = ends_[static_cast<std::size_t>(number)];
  return {bytes_.data() + begin, ends_[static_cast<std::size_t>(number) + 1] - begin};
}

C10_ALWAYS_INLINE bool StringTable::is_long(const Key& key) noexcept {
  return key.words[2] >> kLastByte == kLong;
}

C10_ALWAYS_INLINE StringTable::Key StringTable::key_of(std::string_view string) noexcept {
  const std::size_t size = string.size();
  const char* const data = string.data();
  if (size > kShortBytes) return {{fingerprint64(string), size, kLong << kLastByte}};
  const std::uint64_t last = std::uint64_t{size + 1} << kLastByte;
  if (size >= 16)
    return {
        {load_word<std::uint64_t>(data), load_word<std::uint64_t>(data + 8), load_rest(data, size) | last}};
  if (size >= 8) return {{load_word<std::uint64_t>(data), load_rest(data, size), last}};
  return {{load_small(data, size), 0, last}};
}

C10_ALWAYS_INLINE std::uint64_t StringTable::hash_of(const Key& key) noexcept {
  const std::uint64_t last = is_long(key) ? kLong : key.words[2];  // a slot holds a place there
  return fold(fold(key.words[0] ^ 0xa0761d6478bd642fU, key.words[1] ^ 0xe7037ed1a0b428dbU),
              last ^ 0x8ebc6af09c88c6e3U);
}

C10_ALWAYS_INLINE std::size_t StringTable::bucket_of(const Key& key) const noexcept {
  return hash_of(key) & (slots_.size() - kBucket);
}

C10_ALWAYS_INLINE std::size_t StringTable::after(std::size_t bucket) const noexcept {
  return (bucket + kBucket) & (slots_.size() - 1);
}

C10_ALWAYS_INLINE StringTable::Query StringTable::query(std::string_view string) const noexcept {
  const Key key = key_of(string);
  return {key, bucket_of(key)};
}

C10_ALWAYS_INLINE std::int64_t StringTable::find(const Query& query, std::string_view string) const noexcept {
  if (is_long(query.key)) return find_long(query, string);
  const auto number_in = [&key = query.key](const Slot& slot) {
    const std::uint64_t difference = (slot.key.words[0] ^ key.words[0]) | (slot.key.words[1] ^ key.words[1]) |
                                     (slot.key.words[2] ^ key.words[2]);
    return difference == 0 ? slot.number : 0;
  };
  for (std::size_t bucket = query.bucket;; bucket = after(bucket)) {
    const Slot* const slots = &slots_[bucket];
    const std::int64_t number = number_in(slots[0]) | number_in(slots[1]);
    // The slots of a bucket are filled in order.
    if (number != 0 || slots[kBucket - 1].number == 0) return number - 1;
  }
}

std::int64_t StringTable::find_long(const Query& query, std::string_view string) const noexcept {
  for (std::size_t bucket = query.bucket;; bucket = after(bucket)) {
    for (std::size_t at = bucket; at < bucket + kBucket; ++at) {
      const auto& [key, number] = slots_[at];
      if (number == 0) return kNoToken;
      if (is_long(key) && key.words[0] == query.key.words[0] && key.words[1] == string.size() &&
          std::memcmp(bytes_.data() + (key.words[2] & kPlaceMask), string.data(), string.size()) == 0)
        return number - 1;
    }
  }
}

std::int64_t StringTable::find(std::string_view string) const noexcept {
  return slots_.empty() ? kNoToken : find(query(string), string);
}

void StringTable::find(std::span<const std::string_view> strings, std::int64_t* numbers) const noexcept {
  if (slots_.empty()) {
    std::fill_n(numbers, strings.size(), kNoToken);
    return;
  }
  std::array<Query, kAhead> queries;
  const std::size_t count = strings.size();
  for (std::size_t i = 0; i < count + kAhead; ++i) {
    Query& place = queries[i % kAhead];
    if (i >= kAhead) numbers[i - kAhead] = find(place, strings[i - kAhead]);
    if (i >= count) continue;
    place = query(strings[i]);
    __builtin_prefetch(&slots_[place.bucket]);
  }
}

std::int64_t StringTable::add(std::string_view string) {
  const std::int64_t found = find(string);
  if (found != kNoToken) return found;
  const std::size_t begin = bytes_.size();
  bytes_.insert(bytes_.end(), string.begin(), string.end());
  ends_.push_back(bytes_.size());
  if (static_cast<std::size_t>(size()) * 3 > slots_.size() * 2) grow();
  Slot slot{key_of(string), size()};
  if (is_long(slot.key)) slot.key.words[2] |= begin;
  place(slot);
  return size() - 1;
}

void StringTable::place(const Slot& slot) noexcept {
  std::size_t bucket = bucket_of(slot.key);
  while (slots_[bucket + kBucket - 1].number != 0) bucket = after(bucket);
  while (slots_[bucket].number != 0) ++bucket;
  slots_[bucket] = slot;
}

void StringTable::grow() {
  const auto old = std::exchange(slots_, {});
  slots_.resize(std::max(kFirstSlots, old.size() * 2));
  for (const Slot& slot : old) {
    if (slot.number != 0) place(slot);
  }
}

std::size_t IntegerTable::place_of(std::int64_t value) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = integer_hash(value) & mask;
  while (slots_[at].number != 0 && slots_[at].value != value) at = (at + 1) & mask;
  return at;
}

std::int64_t IntegerTable::find(std::int64_t value) const noexcept {
  return slots_.empty() ? kNoToken : slots_[place_of(value)].number - 1;
}

void IntegerTable::find(std::span<const std::int64_t> values, std::int64_t* numbers) const noexcept {
  if (slots_.empty()) {
    std::fill_n(numbers, values.size(), kNoToken);
    return;
  }
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i + kAhead < values.size()) __builtin_prefetch(&slots_[integer_hash(values[i + kAhead]) & mask]);
    numbers[i] = find(values[i]);
  }
}

std::int64_t IntegerTable::add(std::int64_t value) {
  const std::int64_t found = find(value);
  if (found != kNoToken) return found;
  values_.push_back(value);
  if (values_.size() * 2 > slots_.size()) grow();
  slots_[place_of(value)] = {value, size()};
  return size() - 1;
}

void IntegerTable::grow() {
  const auto old = std::exchange(slots_, {});
  slots_.resize(std::max(kFirstSlots, old.size() * 2));
  for (const Slot& slot : old) {
    if (slot.number != 0) slots_[place_of(slot.value)] = slot;
  }
}

}  // namespace torch_distinput::preprocessing
