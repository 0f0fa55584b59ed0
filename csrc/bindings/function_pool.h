// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <pybind11/pybind11.h>

#include "torch_distinput/function.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// `callable` of a `map`, which processes run. `processes` is the package's object that starts them.
/// REQUIRES: the GIL. Throws c10::TypeError for an object that cannot be called.
FunctionPtr make_process_function(pybind11::object callable, const std::optional<ElementSpec>& declared,
                                  const pybind11::object& processes);

}  // namespace torch_distinput
