// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/example_wire.h"

#include <algorithm>
#include <utility>

namespace torch_distinput {
namespace {

// Field numbers of feature.proto and example.proto.
constexpr std::uint64_t kFeatures = 1;      // of Example, and `context` of SequenceExample
constexpr std::uint64_t kFeatureLists = 2;  // of SequenceExample
constexpr std::uint64_t kEntry = 1;         // of the maps in Features and FeatureLists
constexpr std::uint64_t kEntryKey = 1;
constexpr std::uint64_t kEntryValue = 2;

/// Calls `use(field, bytes)` for the fields of type bytes; others are skipped. Ends where `use` returns
/// false.
template <class Use>
bool for_messages(std::string_view message, Use use) {
  WireReader reader(message);
  while (!reader.done()) {
    std::uint64_t field;
    WireType type;
    if (!reader.head(field, type)) return false;
    std::string_view value;
    if (type == WireType::kBytes) {
      if (!reader.bytes(value) || !use(field, value)) return false;
    } else if (!reader.skip(type)) {
      return false;
    }
  }
  return true;
}

/// Appends the numbers of a packed list to the `count` that `to` has; those from `most` on are only counted.
bool read_packed(std::string_view packed, float* to, std::int64_t most, std::int64_t& count) noexcept {
  if (packed.size() % sizeof(float) != 0) return false;
  const auto here = static_cast<std::int64_t>(packed.size() / sizeof(float));
  const std::int64_t kept = std::min(here, most - count);
  if (kept > 0) std::memcpy(to + count, packed.data(), static_cast<std::size_t>(kept) * sizeof(float));
  count += here;
  return true;
}

bool read_packed(std::string_view packed, std::int64_t* to, std::int64_t most, std::int64_t& count) noexcept {
  WireReader reader(packed);
  while (!reader.done()) {
    std::uint64_t value;
    if (!reader.varint(value)) return false;
    if (count < most) to[count] = static_cast<std::int64_t>(value);
    ++count;
  }
  return true;
}

bool read_single(WireReader& reader, WireType type, float& value) noexcept {
  return type == WireType::kFixed32 && reader.fixed(value);
}

bool read_single(WireReader& reader, WireType type, std::int64_t& value) noexcept {
  std::uint64_t bits;
  if (type != WireType::kVarint || !reader.varint(bits)) return false;
  value = static_cast<std::int64_t>(bits);
  return true;
}

template <class Number>
std::int64_t read_numbers(std::string_view list, Number* to, std::int64_t most) noexcept {
  std::int64_t count = 0;
  WireReader reader(list);
  while (!reader.done()) {
    std::uint64_t field;
    WireType type;
    if (!reader.head(field, type)) return -1;
    if (field != 1) {
      if (!reader.skip(type)) return -1;
    } else if (type == WireType::kBytes) {
      std::string_view packed;
      if (!reader.bytes(packed) || !read_packed(packed, to, most, count)) return -1;
    } else {
      Number value;
      if (!read_single(reader, type, value)) return -1;
      if (count < most) to[count] = value;
      ++count;
    }
  }
  return count;
}

}  // namespace

bool read_feature(std::string_view message, WireList& list) noexcept {
  list = {};
  return for_messages(message, [&](std::uint64_t field, std::string_view body) {
    if (field < 1 || field > 3) return true;
    // One list, or none: the message is a oneof, and no writer stores a second one.
    if (list.kind != ListKind::kNone) return false;
    list = {static_cast<ListKind>(field), body};
    return true;
  });
}

FeatureFinder::FeatureFinder(std::vector<std::string> keys) : keys_(std::move(keys)) {
  for (std::size_t i = 0; i < keys_.size(); ++i) places_.emplace(keys_[i], i);
}

std::size_t FeatureFinder::place(std::string_view key, std::size_t guess) const {
  if (guess < keys_.size() && keys_[guess] == key) return guess;
  const auto found = places_.find(key);
  return found == places_.end() ? keys_.size() : found->second;
}

template <class Set>
bool FeatureFinder::for_entries(std::string_view map, Set set) const {
  // Records of one writer mostly have the features in one order, often that of the keys.
  std::size_t guess = 0;
  return for_messages(map, [&](std::uint64_t field, std::string_view entry) {
    if (field != kEntry) return true;
    std::string_view key;
    std::string_view value;
    const bool read = for_messages(entry, [&](std::uint64_t part, std::string_view bytes) {
      if (part == kEntryKey) key = bytes;
      if (part == kEntryValue) value = bytes;
      return true;
    });
    if (!read) return false;
    const std::size_t found = place(key, guess);
    if (found == keys_.size()) return true;
    guess = found + 1;
    return set(found, value);
  });
}

bool FeatureFinder::find(std::string_view example, std::span<WireList> found) const {
  std::fill(found.begin(), found.end(), WireList{});
  return for_messages(example, [&](std::uint64_t field, std::string_view features) {
    return field != kFeatures || find_features(features, found);
  });
}

bool FeatureFinder::find_features(std::string_view features, std::span<WireList> found) const {
  return for_entries(features, [&](std::size_t place, std::string_view feature) {
    return read_feature(feature, found[place]);
  });
}

bool FeatureFinder::find_sequences(const FeatureFinder& contexts, const FeatureFinder& sequences,
                                   std::string_view example, std::span<WireList> context,
                                   std::span<std::optional<std::string_view>> lists) {
  std::fill(context.begin(), context.end(), WireList{});
  std::fill(lists.begin(), lists.end(), std::nullopt);
  return for_messages(example, [&](std::uint64_t field, std::string_view message) {
    if (field == kFeatures) return contexts.find_features(message, context);
    if (field != kFeatureLists) return true;
    return sequences.for_entries(message, [&](std::size_t place, std::string_view list) {
      lists[place] = list;
      return true;
    });
  });
}

std::int64_t read_values(std::string_view list, float* to, std::int64_t most) noexcept {
  return read_numbers(list, to, most);
}

std::int64_t read_values(std::string_view list, std::int64_t* to, std::int64_t most) noexcept {
  return read_numbers(list, to, most);
}

}  // namespace torch_distinput
