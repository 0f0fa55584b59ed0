// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace torch_distinput {

/// The members of `CudaFunctions` of the same names. They call the driver itself, which is loaded at the
/// first call: CUDA's run time would set up the first device for a thread that has none yet, and refuses
/// drivers that are older than itself.
int exchange_capture_mode(int* mode);
int new_stream(std::int32_t device, void** stream);
int pci_address(std::int32_t device, char* text, std::int32_t size);
int capture_status(void* stream, int* status);

}  // namespace torch_distinput
