// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/backend_op.h"

#include <string>

#include <c10/core/Device.h>
#include <c10/core/TensorOptions.h>

namespace torch_distinput {

c10::OperatorHandle backend_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(("torch_distinput::" + std::string(name)).c_str(),
                                                        "");
}

bool has_kernel(const c10::OperatorHandle& op, c10::DeviceType type) {
  return op.hasKernelForDispatchKey(c10::computeDispatchKey(at::kByte, at::kStrided, c10::Device(type)));
}

}  // namespace torch_distinput
