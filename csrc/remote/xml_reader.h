// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace torch_distinput {

/// Reads the XML that object stores answer with: elements and their texts; attributes are passed over.
/// Throws std::runtime_error for what is not well formed, and for elements nested more than 32 deep.
/// `leaf` is called for each element without elements in it, with the names from the root to it and its text,
/// decoded; `closed` at the end of each element, with the names from the root to it.
void read_xml(std::string_view text,
              const std::function<void(const std::vector<std::string>& path, const std::string& value)>& leaf,
              const std::function<void(const std::vector<std::string>& path)>& closed = {});

/// The text of the first element of that name; "" where there is none, or where `text` is not XML.
std::string xml_value(std::string_view text, const std::string& name);

}  // namespace torch_distinput
