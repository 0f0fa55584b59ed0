// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace torch_distinput {

/// Whether the path of the URL `pattern` has "*", "?" or "[". The query of an http URL is none.
bool has_wildcard(std::string_view pattern);
/// The URL up to its first wildcard.
std::string fixed_prefix(std::string_view pattern);
/// Whether `url` matches `pattern`: "?" stands for one byte, "*" for any number, "[a-z]" and "[!a-z]" for one
/// of a set, none of them for "/"; "**" stands for any number of bytes, "/" too.
bool matches(std::string_view pattern, std::string_view url);

}  // namespace torch_distinput
