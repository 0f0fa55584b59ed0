// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "torch_distinput/spec.h"

namespace torch_distinput {

/// Bytes are not an array in numpy's .npy format of numbers that torch has.
class NpyError : public std::runtime_error {
 public:
  NpyError(std::uint64_t offset, const std::string& problem) : std::runtime_error(problem), offset_(offset) {}
  /// The byte at which that shows, counted from the start of the head.
  std::uint64_t offset() const noexcept { return offset_; }

 private:
  std::uint64_t offset_;
};

/// What the head of an array in numpy's .npy format says; the items follow it.
struct NpyHead {
  c10::ScalarType dtype = c10::ScalarType::Byte;
  Dims shape = {};
  bool fortran_order = false;  ///< the first dim varies fastest
  std::uint64_t size = 0;      ///< bytes of the head
};

/// Enough bytes to tell the size of any head.
inline constexpr std::uint64_t kNpyPrefixBytes = 12;

/// The bytes of the head that begins with `prefix`, which are the first `kNpyPrefixBytes` of the array, or
/// all there are. Throws NpyError. Safe from any thread, as the other functions here.
std::uint64_t npy_head_size(std::string_view prefix);

/// Reads `head`, which has `npy_head_size` bytes, of an array of `size` bytes, head included. Throws NpyError
/// for damage, for a shape that does not fit `size`, and for items that are not little-endian numbers.
NpyHead read_npy_head(std::string_view head, std::uint64_t size);

/// Writes the items of an array in row-major order to `to`, which has room for as many bytes.
void copy_npy_items(const NpyHead& head, std::string_view items, char* to);

/// Bytes of `shape` items of this type. -1 where a dim is negative, or where the other dims than those of
/// size 0 stand for 2^63 bytes or more: neither torch nor numpy has tensors of such shapes, also not empty
/// ones.
std::int64_t bytes_of_array(const Dims& shape, c10::ScalarType dtype);

}  // namespace torch_distinput
