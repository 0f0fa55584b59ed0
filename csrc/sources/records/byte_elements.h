// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "torch_distinput/element.h"

/// \file
/// Elements that are strings; `utf8` says that they are text.

namespace torch_distinput {

class BufferPool;

/// An element that is one string.
Element string_element(std::string_view text, bool utf8);

/// Consecutive pieces of `values` (uint8, one dim), of `sizes` bytes, each as an element that is one string
/// and shares the memory.
std::vector<Element> string_elements(const at::Tensor& values, std::span<const std::int64_t> sizes,
                                     bool utf8);

/// One element: the column of strings that these pieces are.
Element string_column(const at::Tensor& values, std::span<const std::int64_t> sizes, bool utf8,
                      BufferPool& pool);

}  // namespace torch_distinput
