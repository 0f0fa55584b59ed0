// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// The most objects and arrays that lie within one another in a JSON line. Parsers recurse into them, and a
/// thread's stack is small.
inline constexpr int kMaxJsonDepth = 100;

/// A line that is not one JSON object.
struct JsonFault {
  enum class Kind {
    kNoObject,  ///< it begins with something else, or something follows its object
    kTooDeep,   ///< it nests objects and arrays deeper than `kMaxJsonDepth`
    kNoText,    ///< it is not UTF-8
    kUnclosed,  ///< its object or a text in it does not end with the line
  };
  Kind kind;
  std::uint64_t begin, end;  ///< the bytes of the line, its line end included
};

/// Returns the first line of `text` that is not one object in UTF-8, by its brackets and quotes alone: what
/// is inside of them is left to a parser. Lines of white space are passed over. One pass; safe from any
/// thread. `text` may hold any bytes.
TDI_API std::optional<JsonFault> find_json_fault(std::span<const char> text);

}  // namespace torch_distinput
