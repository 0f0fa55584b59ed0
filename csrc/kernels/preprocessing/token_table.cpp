// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/preprocessing/token_table.h"

#include <algorithm>
#include <array>

#include "kernels/preprocessing/hashes.h"

namespace torch_distinput::preprocessing {
namespace {

constexpr std::size_t kFirstSlots = 16;
/// Look-ups whose memory is fetched together: about as many as a core has line fill buffers.
constexpr std::size_t kFetched = 16;

std::uint32_t tag_of(std::uint64_t hash) noexcept { return static_cast<std::uint32_t>(hash >> 32); }

std::uint64_t integer_hash(std::int64_t value) noexcept {
  std::uint64_t word = static_cast<std::uint64_t>(value) * 0x9e3779b97f4a7c15U;  // Fibonacci hashing
  return word ^ (word >> 32);
}

}  // namespace

std::string_view StringTable::operator[](std::int64_t number) const noexcept {
  const std::size_t begin = ends_[static_cast<std::size_t>(number)];
  return {bytes_.data() + begin, ends_[static_cast<std::size_t>(number) + 1] - begin};
}

bool StringTable::holds(const Slot& slot, std::string_view string) const noexcept {
  const std::size_t size = slot.place & kLongString;
  if (size == kLongString) return (*this)[std::int64_t{slot.number} - 1] == string;
  return std::string_view(bytes_.data() + begin_of(slot), size) == string;
}

std::int64_t StringTable::find(std::string_view string, std::uint64_t hash) const noexcept {
  if (slots_.empty()) return kNoToken;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.number == 0) return kNoToken;
    if (slot.tag == tag_of(hash) && holds(slot, string)) return std::int64_t{slot.number} - 1;
  }
}

std::int64_t StringTable::find(std::string_view string) const noexcept {
  return find(string, fingerprint64(string));
}

void StringTable::find(std::span<const std::string_view> strings, std::int64_t* numbers) const noexcept {
  if (slots_.empty()) {
    std::fill_n(numbers, strings.size(), kNoToken);
    return;
  }
  std::array<std::uint64_t, kFetched> hashes{};
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t first = 0; first < strings.size(); first += kFetched) {
    const std::size_t count = std::min(kFetched, strings.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      hashes[i] = fingerprint64(strings[first + i]);
      __builtin_prefetch(&slots_[hashes[i] & mask]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Slot& slot = slots_[hashes[i] & mask];
      if (slot.number != 0) __builtin_prefetch(bytes_.data() + begin_of(slot));
    }
    for (std::size_t i = 0; i < count; ++i) numbers[first + i] = find(strings[first + i], hashes[i]);
  }
}

std::int64_t StringTable::add(std::string_view string) {
  const std::uint64_t hash = fingerprint64(string);
  const std::int64_t found = find(string, hash);
  if (found != kNoToken) return found;
  bytes_.insert(bytes_.end(), string.begin(), string.end());
  ends_.push_back(bytes_.size());
  if (static_cast<std::size_t>(size()) * 2 > slots_.size()) {
    grow();
  } else {
    place(size() - 1, hash);
  }
  return size() - 1;
}

void StringTable::place(std::int64_t number, std::uint64_t hash) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at].number != 0) at = (at + 1) & mask;
  const std::size_t begin = ends_[static_cast<std::size_t>(number)];
  const std::uint64_t size = ends_[static_cast<std::size_t>(number) + 1] - begin;
  slots_[at] = {tag_of(hash), static_cast<std::uint32_t>(number + 1),
                begin << kSizeBits | std::min(size, kLongString)};
}

void StringTable::grow() {
  slots_.assign(std::max(kFirstSlots, slots_.size() * 2), {});
  for (std::int64_t number = 0; number < size(); ++number) place(number, fingerprint64((*this)[number]));
}

std::size_t IntegerTable::slot_of(std::int64_t value) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = integer_hash(value) & mask;
  while (slots_[at] != 0 && values_[slots_[at] - 1] != value) at = (at + 1) & mask;
  return at;
}

std::int64_t IntegerTable::find(std::int64_t value) const noexcept {
  return slots_.empty() ? kNoToken : std::int64_t{slots_[slot_of(value)]} - 1;
}

void IntegerTable::find(std::span<const std::int64_t> values, std::int64_t* numbers) const noexcept {
  for (const std::int64_t value : values) *numbers++ = find(value);
}

std::int64_t IntegerTable::add(std::int64_t value) {
  const std::int64_t found = find(value);
  if (found != kNoToken) return found;
  values_.push_back(value);
  if (values_.size() * 2 > slots_.size()) {
    grow();
  } else {
    slots_[slot_of(value)] = static_cast<std::uint32_t>(values_.size());
  }
  return size() - 1;
}

void IntegerTable::grow() {
  slots_.assign(std::max(kFirstSlots, slots_.size() * 2), 0);
  for (std::size_t i = 0; i < values_.size(); ++i)
    slots_[slot_of(values_[i])] = static_cast<std::uint32_t>(i + 1);
}

}  // namespace torch_distinput::preprocessing
