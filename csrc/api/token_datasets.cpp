// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "sources/tokens/token_sources.h"
#include "torch_distinput/tokens.h"

namespace torch_distinput {

TokenDataset::TokenDataset(FileNames files, std::optional<c10::ScalarType> dtype, TokenOptions options)
    : Dataset(sources::token_files(files.node(), dtype, options)) {}

TokenDataset::TokenDataset(at::Tensor tokens, std::optional<at::Tensor> offsets, TokenOptions options)
    : Dataset(sources::tokens_in_memory(std::move(tokens), offsets, options)) {}

}  // namespace torch_distinput
