// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

/// A libcuda.so.1 for machines without a GPU: the functions that the CUDA library calls, for two devices.
namespace torch_distinput::fake_driver {

/// CUresult values that it returns.
inline constexpr int kInvalidDevice = 101;
inline constexpr int kInvalidContext = 201;

/// The calling thread's mode for graph captures.
int capture_mode();
/// Whether `device` has been set up.
bool has_context(int device);
/// The device of the calling thread's context; -1: it has none.
int current_device();
/// The device for which `stream` was made, and whether it is independent of the default stream.
int device_of(void* stream);
bool is_non_blocking(void* stream);
/// Sets what the driver says of graph captures of `stream`: 0 none, 1 active, 2 failed.
void set_capture_status(void* stream, int status);

}  // namespace torch_distinput::fake_driver
