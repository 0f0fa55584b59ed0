// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace torch_distinput {

/// Where a value of a JSON text is: the names of the members from the root to it; "[]" for an element of an
/// array.
using JsonPath = std::vector<std::string>;

/// Reads the JSON that object stores answer with. Throws std::runtime_error for what is not JSON (RFC 8259,
/// in UTF-8), and for values nested more than 32 deep. `leaf` is called for each string (decoded), number,
/// true and false (as they are written), and not for null; `closed` at the end of each object and array.
void read_json(std::string_view text,
               const std::function<void(const JsonPath& path, const std::string& value)>& leaf,
               const std::function<void(const JsonPath& path)>& closed = {});

}  // namespace torch_distinput
