// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <variant>

#include <ATen/core/Tensor.h>

#include "torch_distinput/function.h"

namespace torch_distinput {

/// What each row costs, in tokens or anything that can be added up: finite numbers of at least 0. One of
/// - a tensor of one dimension with a number for each row of the source. The costs follow their rows through
///   ops that choose or move rows (`shuffle`, `take`, `select`, `repeat`, ...) and ops that make one row of
///   each (`map`). Known without reading rows, so that random access stays. Copied when it is given.
/// - the key of one leaf of rows that are dicts. A scalar is the cost; the cost of a sequence is its length:
///   of a tensor along dim 0, of a string in bytes.
/// - a function that returns the cost of a row, a scalar.
using RowCost = std::variant<at::Tensor, std::string, FunctionPtr>;

}  // namespace torch_distinput
