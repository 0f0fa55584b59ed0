// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace torch_distinput {

/// Ascending byte offsets at about 4 bytes each: a base for every 64 and the distance to it. Reading is
/// thread-safe, adding is not.
class RecordOffsets {
 public:
  static constexpr std::uint64_t kGroup = 64;

  /// REQUIRES: `offset` is not below the one added before.
  void add(std::uint64_t offset);
  std::uint64_t operator[](std::uint64_t index) const noexcept {
    return narrow() ? bases_[index / kGroup] + distances_[index] : bases_[index];
  }
  std::uint64_t size() const noexcept { return size_; }

  /// The parts, for storing. Where distances would need more than 32 bits, `bases` are the offsets themselves
  /// and there are no distances.
  std::span<const std::uint64_t> bases() const noexcept { return bases_; }
  std::span<const std::uint32_t> distances() const noexcept { return distances_; }
  /// From stored parts. Throws std::invalid_argument where they cannot be `size` ascending offsets.
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
