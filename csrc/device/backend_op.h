// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceType.h>

namespace torch_distinput {

/// The operator `torch_distinput::<name>`, which the backend of an accelerator may give a kernel.
c10::OperatorHandle backend_op(const char* name);

/// Whether devices of `type` have a kernel of their own for `op`.
bool has_kernel(const c10::OperatorHandle& op, c10::DeviceType type);

}  // namespace torch_distinput
