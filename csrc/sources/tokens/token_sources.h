// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "torch_distinput/node.h"
#include "torch_distinput/tokens.h"

/// \file
/// The sources behind `TokenDataset`, whose doc says what they check and throw.

namespace torch_distinput::sources {

/// Elements cut from the token files that `names` yields.
NodePtr token_files(NodePtr names, std::optional<c10::ScalarType> dtype, const TokenOptions& options);
/// Elements cut from `tokens`; reads the user's memory.
NodePtr tokens_in_memory(at::Tensor tokens, const std::optional<at::Tensor>& offsets,
                         const TokenOptions& options);

}  // namespace torch_distinput::sources
