// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>

#include "torch_distinput/images.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// What an argument may name.
struct LeafQuery {
  const char* op;
  const char* parameter;
  const char* what;  ///< "an image (uint8, ...)"
  std::function<bool(const LeafSpec&)> suits;
};

/// Returns the leaf under `key`, or the only one of `spec` that suits. Where several leaves suit, those of
/// `last_choice` do not count. Throws c10::ValueError unless exactly one leaf is left.
std::size_t choose_leaf(const ElementSpec& spec, const ImageKey& key, const LeafQuery& query,
                        const std::set<std::size_t>& last_choice);

/// `'image'`, or the number.
std::string describe_key(const ImageKey& key);

}  // namespace torch_distinput
