// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "torch_distinput/element.h"

namespace torch_distinput {

class BufferPool;

/// \file
/// Elements as bytes, for memory that processes share. All functions are safe from any thread.

/// The leaves of `element`, without its structure. Throws c10::TypeError naming `op` and the leaf for a leaf
/// that is neither a dense tensor in host memory nor strings.
std::vector<char> encode_element(const Element& element, std::string_view op);

/// The element of `structure` with these leaves, in memory of `pool`. Throws c10::ValueError naming `op` for
/// bytes that `encode_element` did not make of an element of that structure.
Element decode_element(std::span<const char> bytes, const StructurePtr& structure, BufferPool& pool,
                       std::string_view op);

}  // namespace torch_distinput
