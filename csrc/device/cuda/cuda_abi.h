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
inline constexpr std::int32_t kMaxUnpackChannels = 16;

/// Numbers that devices can add up; the values are NCCL's.
enum class NumberType : std::int32_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kInt64 = 4,
  kHalf = 6,
  kFloat = 7,
  kDouble = 8,
  kBFloat16 = 9,
};

/// One device's part in what several devices of this process do together. No device has two.
struct DevicePart {
  std::int32_t device;
  void* stream;        ///< cudaStream_t of the device
  const void* from;    ///< contiguous, on the device
  void* to;            ///< where its result goes; see the functions
  std::int64_t count;  ///< items of `from`
};

/// What the CUDA library gives. Functions that return an int return 0 or an error that `error_text` explains.
struct CudaFunctions {
  /// Whether the kernels of this library run on `device`: there is a driver that is new enough, such a
  /// device, and code for it. Loads the driver, but sets up no device.
  int (*check_device)(std::int32_t device);
  /// Sets the calling thread's mode for graph captures (0 global, 1 thread local, 2 relaxed), and returns the
  /// one before in `mode`. Sets up no device.
  int (*exchange_capture_mode)(int* mode);
  /// Makes a stream (a cudaStream_t) of `device` that nobody else has, and which is never destroyed. Sets
  /// `device` up.
  int (*new_stream)(std::int32_t device, void** stream);
  /// Queues one kernel on `stream` (a cudaStream_t) of the current device.
  int (*unpack_images)(const UnpackImages* work, void* stream);
  /// Whether these devices of this process can work together as below. The first time takes seconds.
  int (*nccl_init)(const std::int32_t* devices, std::int32_t count);
  /// Queues on every part's stream: `to`, on the part's device, = the sum over all parts' `from`. All of one
  /// count.
  int (*nccl_all_reduce)(const DevicePart* parts, std::int32_t count, NumberType type);
  /// The same for part `root` alone; the others' `to` is not used.
  int (*nccl_reduce)(const DevicePart* parts, std::int32_t count, NumberType type, std::int32_t root);
  /// Queues the copy of every part's `from`, whose items are bytes, to its `to`, on the device of part
  /// `root`.
  int (*nccl_gather)(const DevicePart* parts, std::int32_t count, std::int32_t root);
  const char* (*error_text)(int error);
};

}  // namespace torch_distinput
