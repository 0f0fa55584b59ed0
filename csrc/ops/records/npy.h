// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "torch_distinput/spec.h"

namespace torch_distinput {

/// What the head of a file in numpy's .npy format says.
struct NpyArray {
  c10::ScalarType dtype = c10::ScalarType::Byte;
  Dims shape = {};
  bool fortran_order = false;  ///< the first dim varies fastest
  std::string_view data = {};  ///< the items, which are as many bytes as dtype and shape say
};

/// Reads the array in `file`, which may hold any bytes. Returns why it cannot be read (damage, a dtype that
/// torch does not have, big-endian numbers); empty if `array` is set. Safe from any thread.
std::string read_npy(std::string_view file, NpyArray& array);

/// Writes the items of `array` in row-major order to `to`. REQUIRES: room for `array.data.size()` bytes.
void copy_npy(const NpyArray& array, char* to);

}  // namespace torch_distinput
