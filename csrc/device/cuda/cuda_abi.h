// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace torch_distinput {

/// Dtypes that images are unpacked to.
enum class UnpackedType : std::int32_t { kFloat = 0, kHalf = 1, kBFloat16 = 2 };

/// Images of uint8 that become numbers, all pointers on one device. `images` of `height * width` pixels with
/// `channels` values each; value = fma(byte, scale[channel], shift[channel]) in float32, then rounded to
/// `type`.
struct UnpackImages {
  const std::uint8_t* from;
  void* to;
  std::int64_t images;
  std::int64_t height;
  std::int64_t width;
  std::int32_t channels;
  std::int32_t channels_last_in;   ///< pixels of `from` hold their channels side by side
  std::int32_t channels_last_out;  ///< pixels of `to` do
  UnpackedType type;
  const float* scale;        ///< host memory, one a channel
  const float* shift;        ///< host memory, one a channel
  const std::uint8_t* flip;  ///< one an image: not 0: left and right change sides; null: none do
};

/// Most channels that the kernel takes.
inline constexpr std::int32_t kMostUnpackChannels = 16;

/// What the CUDA library gives. Every function returns 0 or a cudaError_t.
struct CudaFunctions {
  int (*device_count)(int* count);
  /// Sets the calling thread's mode for graph captures (0 global, 1 thread local, 2 relaxed), and returns the
  /// one before in `mode`.
  int (*exchange_capture_mode)(int* mode);
  /// Queues one kernel on `stream` (a cudaStream_t) of the current device.
  int (*unpack_images)(const UnpackImages* work, void* stream);
  const char* (*error_text)(int error);
};

}  // namespace torch_distinput
