// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace torch_distinput::preprocessing {

/// The number of a token that a table does not hold.
inline constexpr std::int64_t kNoToken = -1;

/// Numbers the distinct strings that are added, in order: a compact hash table (open addressing, 16 bytes
/// a slot) over one block with all their bytes. Reading is safe from any thread; adding is not.
class StringTable {
 public:
  /// Number of distinct strings.
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(ends_.size()) - 1; }
  /// String `number`, valid until the next `add`. REQUIRES: 0 <= `number` < `size()`.
  std::string_view operator[](std::int64_t number) const noexcept;
  /// The number of `string`, which is added if the table does not hold it.
  std::int64_t add(std::string_view string);
  /// The number of `string`, or `kNoToken`.
  std::int64_t find(std::string_view string) const noexcept;
  /// As `find` for each of `strings`; the memory that several look-ups need is fetched at the same time.
  void find(std::span<const std::string_view> strings, std::int64_t* numbers) const noexcept;

 private:
  /// A string as a look-up needs it, so that it touches two places in memory: this one and the bytes.
  struct Slot {
    std::uint32_t tag = 0;     ///< part of the hash
    std::uint32_t number = 0;  ///< plus 1; 0: empty
    std::uint64_t place = 0;   ///< where the bytes begin, and in the last `kSizeBits` bits their number
  };
  static constexpr unsigned kSizeBits = 24;
  /// Stands for this number of bytes and all larger ones.
  static constexpr std::uint64_t kLongString = (std::uint64_t{1} << kSizeBits) - 1;

  static std::size_t begin_of(const Slot& slot) noexcept { return slot.place >> kSizeBits; }
  bool holds(const Slot& slot, std::string_view string) const noexcept;
  std::int64_t find(std::string_view string, std::uint64_t hash) const noexcept;
  void place(std::int64_t number, std::uint64_t hash);
  void grow();

  std::vector<Slot> slots_;  ///< a power of two, at most half of them used
  std::vector<char> bytes_;
  std::vector<std::size_t> ends_{0};
};

/// The same for integers.
class IntegerTable {
 public:
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(values_.size()); }
  std::int64_t operator[](std::int64_t number) const noexcept {
    return values_[static_cast<std::size_t>(number)];
  }
  std::int64_t add(std::int64_t value);
  std::int64_t find(std::int64_t value) const noexcept;
  void find(std::span<const std::int64_t> values, std::int64_t* numbers) const noexcept;

 private:
  std::size_t slot_of(std::int64_t value) const noexcept;
  void grow();

  std::vector<std::uint32_t> slots_;  ///< number plus 1; 0: empty
  std::vector<std::int64_t> values_;
};

}  // namespace torch_distinput::preprocessing
