// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch_distinput/dataset_options.h"
#include "torch_distinput/node.h"

namespace torch_distinput::ops {

/// `shuffle` with `options.blocks`. Throws c10::ValueError.
NodePtr block_shuffle(NodePtr input, ShuffleOptions options);

}  // namespace torch_distinput::ops
