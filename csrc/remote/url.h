// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// A URL in parts, as the user wrote them: nothing is decoded.
struct Url {
  std::string scheme;     ///< in lower case: "https", "s3"
  std::string authority;  ///< host and port, or a bucket
  std::string path;       ///< with its leading "/"; "" where there is none
  std::string query;      ///< without "?"; "" where there is none
};

/// Returns whether `name` names an object of a store rather than a file: it begins with a scheme (of RFC
/// 3986) and "://".
bool is_url(std::string_view name);

/// Splits `text`. A "?" begins a query in http and https only: keys of object stores may contain it. Throws
/// std::invalid_argument naming `text` (without its query) where there is no scheme or no authority.
Url parse_url(std::string_view text);

/// The URL without its query and user information, which may hold secrets, for messages.
TDI_API std::string shown_url(std::string_view url);

/// The URL without its query.
std::string without_query(const std::string& url);

/// Encodes all bytes of `text` but letters, digits and "-._~", and "/" where `keep_slashes`, as RFC 3986 and
/// AWS have it.
std::string percent_encode(std::string_view text, bool keep_slashes);
/// Decodes "%XX"; other bytes stay.
std::string percent_decode(std::string_view text);

/// Returns `location`, the value of a Location header, relative to `base`, as an absolute URL.
std::string resolve_url(std::string_view base, std::string_view location);

}  // namespace torch_distinput
