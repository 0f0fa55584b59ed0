// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include "torch_distinput/dataset.h"

namespace torch_distinput {

/// `dataset` with functions that workers of an executor run. `calls(function, in_blocks)` returns for a
/// callable of the pipeline what asks for its results, or None where this process calls it: an object with
/// `may_ask()`, `worth_a_call()`, `ask(rows, key, numbers)`, `take(call, seconds)` and `forget(call)`, which
/// any thread may call. REQUIRES: the GIL.
Dataset with_functions_elsewhere(const Dataset& dataset, const pybind11::function& calls);

}  // namespace torch_distinput
