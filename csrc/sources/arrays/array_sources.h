// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch_distinput/node.h"

namespace torch_distinput {

/// Formats of files of arrays.
enum class ArrayKind { kNumpy, kSafetensors };

namespace sources {

/// Rows along dim 0 of the arrays in the files that `names` yields; the docs of `NumpyDataset` and
/// `SafetensorsDataset` say what is checked.
NodePtr array_files(NodePtr names, ArrayKind kind);

}  // namespace sources
}  // namespace torch_distinput
