// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceType.h>

namespace torch_distinput {

/// The operator `torch_distinput::<name>`, for which the backend of an accelerator may register a kernel.
/// Throws c10::Error if it is not defined. Safe from any thread.
c10::OperatorHandle backend_op(const char* name);

/// Whether a kernel of `op` is registered for devices of `type`. Safe from any thread.
bool has_kernel(const c10::OperatorHandle& op, c10::DeviceType type);

}  // namespace torch_distinput
