// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace torch_distinput {

/// A list of ascending byte offsets in about 4 bytes each: a 64-bit base for every 64 offsets and the 32-bit
/// distance of each from its base. Const methods are safe from any thread while none adds.
class RecordOffsets {
 public:
  static constexpr std::uint64_t kGroup = 64;  ///< offsets that share a base

  /// Appends `offset`. REQUIRES: `offset` is not below the last one.
  void add(std::uint64_t offset);
  /// Returns offset number `index`. REQUIRES: `index` < size().
  std::uint64_t operator[](std::uint64_t index) const noexcept {
    return narrow() ? bases_[index / kGroup] + distances_[index] : bases_[index];
  }
  /// The number of offsets.
  std::uint64_t size() const noexcept { return size_; }

  /// The parts, for storing; valid until the next change. If a distance needs more than 32 bits, `bases`
  /// holds the offsets themselves and there are no distances.
  std::span<const std::uint64_t> bases() const noexcept { return bases_; }
  std::span<const std::uint32_t> distances() const noexcept { return distances_; }
  /// The list with these stored parts. Throws std::invalid_argument unless they are `size` ascending offsets.
  RecordOffsets(std::uint64_t size, std::vector<std::uint64_t> bases, std::vector<std::uint32_t> distances);
  RecordOffsets() = default;

 private:
  bool narrow() const noexcept { return distances_.size() == size_; }
  void widen();

  std::uint64_t size_ = 0;
  std::vector<std::uint64_t> bases_;
  std::vector<std::uint32_t> distances_;
};

}  // namespace torch_distinput
