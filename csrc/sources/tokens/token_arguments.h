// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sources/tokens/token_source.h"
#include "sources/tokens/token_windows.h"
#include "torch_distinput/tokens.h"

namespace torch_distinput {

inline constexpr const char* kTokenDatasetName = "TokenDataset";

/// Throws c10::ValueError naming the option that is out of range.
void check_token_options(const TokenOptions& options);
/// The arguments as in the call, after `first`.
std::string token_arguments(std::string first, const TokenOptions& options);

TokenCuts cuts_of(const TokenOptions& options);
/// How tokens of type `from` become those of elements: where the type of elements cannot hold them all, they
/// are checked against its range.
TokenConversion conversion_of(const TokenOptions& options, c10::ScalarType from);

}  // namespace torch_distinput
