// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "torch_distinput/element.h"

/// \file
/// Elements that are strings; `utf8` says whether they are text (else bytes). Safe from any thread.

namespace torch_distinput {

class BufferPool;

/// Returns an element that is one string, a copy of `text`.
Element string_element(std::string_view text, bool utf8);

/// Cuts `values` (uint8, one dim) into consecutive pieces of `sizes` bytes and returns each as an element
/// that is one string. They share the memory of `values`.
std::vector<Element> string_elements(const at::Tensor& values, std::span<const std::int64_t> sizes,
                                     bool utf8);

/// Returns the same pieces as one element, a column of strings. Shares the memory of `values`; the offsets
/// are in memory of `pool`.
Element string_column(const at::Tensor& values, std::span<const std::int64_t> sizes, bool utf8,
                      BufferPool& pool);

}  // namespace torch_distinput
