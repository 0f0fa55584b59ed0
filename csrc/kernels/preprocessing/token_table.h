// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/buffer_pool.h"

namespace torch_distinput::preprocessing {

/// The number of a token that a table does not hold.
inline constexpr std::int64_t kNoToken = -1;

/// Memory in huge pages for the standard containers: a random access then misses the TLB rarely.
template <class Item>
struct PageMemory {
  using value_type = Item;
  PageMemory() = default;
  template <class Other>
  explicit PageMemory(const PageMemory<Other>& /*other*/) noexcept {}
  Item* allocate(std::size_t count) { return static_cast<Item*>(pages().allocate(count * sizeof(Item))); }
  void deallocate(Item* items, std::size_t count) noexcept {
    pages().deallocate(items, count * sizeof(Item));
  }
  bool operator==(const PageMemory&) const = default;

 private:
  /// Never destroyed: tables may be freed after static objects have been.
  static BlockAllocator& pages() {
    static auto& allocator = *new std::shared_ptr<BlockAllocator>(page_allocator());
    return *allocator;
  }
};

/// Numbers the distinct strings that are added, in order: a hash table (open addressing) whose slots hold
/// strings of up to 23 bytes themselves, so that a look-up of a word touches one cache line. Longer ones, and
/// a copy of all strings in order, are in one block. Reading is safe from any thread; adding is not.
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
  /// A short string as its bytes, zeros and in the last byte its size plus 1; a long one as its hash, its
  /// size, `kLong` in the last byte and, in a slot, where its bytes begin in the bytes before that. Two equal
  /// keys of short strings are equal strings.
  struct Key {
    std::uint64_t words[3];
  };
  /// Half a cache line.
  struct Slot {
    Key key;
    std::int64_t number;  ///< plus 1; 0: empty
  };
  /// A string on its way to its slot.
  struct Query {
    Key key;
    std::size_t bucket;  ///< the first slot of the bucket where the search begins
  };

  static bool is_long(const Key& key) noexcept;
  static std::uint64_t hash_of(const Key& key) noexcept;
  static Key key_of(std::string_view string) noexcept;
  Query query(std::string_view string) const noexcept;
  std::int64_t find(const Query& query, std::string_view string) const noexcept;
  std::int64_t find_long(const Query& query, std::string_view string) const noexcept;
  std::size_t bucket_of(const Key& key) const noexcept;
  std::size_t after(std::size_t bucket) const noexcept;
  void place(const Slot& slot) noexcept;
  void grow();

  std::vector<Slot, PageMemory<Slot>> slots_;  ///< a power of two, at most two thirds of them used
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
  struct Slot {
    std::int64_t value;
    std::int64_t number;  ///< plus 1; 0: empty
  };

  std::size_t place_of(std::int64_t value) const noexcept;
  void grow();

  std::vector<Slot, PageMemory<Slot>> slots_;  ///< a power of two, at most half of them used
  std::vector<std::int64_t> values_;
};

}  // namespace torch_distinput::preprocessing
