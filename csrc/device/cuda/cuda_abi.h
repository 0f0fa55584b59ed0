// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace torch_distinput {

/// Dtypes to which images are unpacked.
enum class UnpackedType : std::int32_t { kFloat = 0, kHalf = 1, kBFloat16 = 2 };

/// Images of uint8 that become numbers: `images` of `height * width` pixels with `channels` values each. Each
/// value = fma(byte, scale[channel], shift[channel]) in float32, then rounded to `type`. All pointers are on
/// one device, except where noted; `from` and `to` are contiguous.
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
  const float* scale;        ///< host memory, one for each channel
  const float* shift;        ///< host memory, one for each channel
  const std::uint8_t* flip;  ///< one for each image; not 0: mirror it left to right; null: mirror none
};

/// The largest number of channels that the kernel supports.
inline constexpr std::int32_t kMaxUnpackChannels = 16;

/// Dtypes that devices can add; the values are those of ncclDataType_t.
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

/// One device's part in a collective of several devices of this process. No device has two parts.
struct DevicePart {
  std::int32_t device;  ///< its index
  void* stream;         ///< cudaStream_t of the device
  const void* from;     ///< contiguous, on the device
  void* to;             ///< the result; see the functions
  std::int64_t count;   ///< items of `from`
};

/// The functions of the CUDA library. Those that return an int return 0 or an error that `error_text`
/// explains. Safe from any thread.
struct CudaFunctions {
  /// Whether the kernels of this library run on `device`: the driver is new enough, the device exists, and
  /// the library has code for it. Loads the driver, but sets up no device.
  int (*check_device)(std::int32_t device);
  /// Sets the calling thread's mode for graph captures (0 global, 1 thread local, 2 relaxed) to `*mode`, and
  /// `*mode` to the one before. Sets up no device.
  int (*exchange_capture_mode)(int* mode);
  /// Creates a stream (a cudaStream_t) of `device` that torch does not know and that is never destroyed. Sets
  /// up `device`.
  int (*new_stream)(std::int32_t device, void** stream);
  /// Writes the PCI address of `device`, such as "0000:41:00.0", to `text`, which has room for `size`
  /// characters. Sets up no device.
  int (*pci_address)(std::int32_t device, char* text, std::int32_t size);
  /// `*status`: 0 where `stream` (a cudaStream_t) executes its work; 1 where it records a graph, 2 where that
  /// recording has failed and was not ended yet.
  int (*capture_status)(void* stream, int* status);
  /// Queues one kernel on `stream` (a cudaStream_t) of the current device.
  int (*unpack_images)(const UnpackImages* work, void* stream);
  /// Connects these devices of this process for the functions below, once; the first time takes seconds.
  int (*nccl_init)(const std::int32_t* devices, std::int32_t count);
  /// Queues on every part's stream: `to`, on the part's device, = the sum over all parts' `from`. All parts
  /// have the same `count`.
  int (*nccl_all_reduce)(const DevicePart* parts, std::int32_t count, NumberType type);
  /// Does the same for part `root` alone; `to` of the other parts is not used.
  int (*nccl_reduce)(const DevicePart* parts, std::int32_t count, NumberType type, std::int32_t root);
  /// Queues a copy of every part's `from`, whose items are bytes, to its `to`, which is on the device of part
  /// `root`.
  int (*nccl_gather)(const DevicePart* parts, std::int32_t count, std::int32_t root);
  /// The text of an error that one of these functions returned; valid until the process ends.
  const char* (*error_text)(int error);
  /// Begins and ends a range of the calling thread for tools that read NVTX; both do nothing without such a
  /// tool. They need no driver. `name` is copied.
  void (*range_push)(const char* name);
  void (*range_pop)();
};

}  // namespace torch_distinput
