// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/url.h"

#include <algorithm>
#include <stdexcept>

#include "remote/text.h"

namespace torch_distinput {
namespace {

constexpr std::string_view kSeparator = "://";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_of_scheme(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
}

bool is_http(std::string_view scheme) { return scheme == "http" || scheme == "https"; }

bool is_unreserved(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The authority without "user:password@".
std::string_view without_user(std::string_view authority) {
  const std::size_t at = authority.rfind('@');
  return at == std::string_view::npos ? authority : authority.substr(at + 1);
}

/// "/a/b/../c/./d" without "." and "..".
std::string without_dots(std::string_view path) {
  std::string result;
  while (!path.empty()) {
    const std::size_t next = path.find('/', 1);
    const std::string_view part = path.substr(0, next);
    path.remove_prefix(part.size());
    if (part == "/..") {
      result.erase(result.rfind('/') == std::string::npos ? 0 : result.rfind('/'));
      if (path.empty()) result += '/';
    } else if (part == "/.") {
      if (path.empty()) result += '/';
    } else {
      result += part;
    }
  }
  return result;
}

}  // namespace

bool is_url(std::string_view name) {
  const std::size_t end = name.find(kSeparator);
  if (end == std::string_view::npos || end == 0 || !is_letter(name.front())) return false;
  return std::all_of(name.begin(), name.begin() + end, is_of_scheme);
}

Url parse_url(std::string_view text) {
  Url url;
  const std::size_t separator = text.find(kSeparator);
  if (separator == std::string_view::npos || separator == 0) {
    const std::string_view shown = without_user(text.substr(0, text.find_first_of("?#")));
    throw std::invalid_argument("the URL `" + std::string(shown) + "` has no scheme");
  }
  url.scheme = lower(text.substr(0, separator));
  std::string_view rest = text.substr(separator + kSeparator.size());
  if (is_http(url.scheme)) {
    rest = rest.substr(0, rest.find('#'));
    if (const std::size_t query = rest.find('?'); query != std::string_view::npos) {
      url.query = rest.substr(query + 1);
      rest = rest.substr(0, query);
    }
  }
  const std::size_t path = rest.find('/');
  url.authority = rest.substr(0, path);
  if (path != std::string_view::npos) url.path = rest.substr(path);
  if (url.authority.empty())
    throw std::invalid_argument("the URL `" + shown_url(text) + "` names no host or bucket");
  return url;
}

std::string without_query(const std::string& url) {
  const std::size_t separator = url.find(kSeparator);
  if (separator == std::string::npos || !is_http(lower(url.substr(0, separator)))) return url;
  return url.substr(0, url.find_first_of("?#", separator));
}

std::string shown_url(std::string_view url) {
  const std::size_t separator = url.find(kSeparator);
  if (separator == std::string_view::npos) return std::string(url);
  const std::string scheme = lower(url.substr(0, separator));
  std::string_view rest = url.substr(separator + kSeparator.size());
  if (is_http(scheme)) rest = rest.substr(0, rest.find_first_of("?#"));
  const std::size_t path = std::min(rest.find('/'), rest.size());
  const std::string_view authority =
      is_http(scheme) ? without_user(rest.substr(0, path)) : rest.substr(0, path);
  return scheme + std::string(kSeparator) + std::string(authority) + std::string(rest.substr(path));
}

std::string percent_encode(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_unreserved(byte) || (c == '/' && keep_slashes)) {
      result += c;
    } else {
      result += {'%', kDigits[byte >> 4U], kDigits[byte & 15U]};
    }
  }
  return result;
}

std::string percent_decode(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low >= 0) {
      result += static_cast<char>(16 * high + low);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string resolve_url(std::string_view base, std::string_view location) {
  if (location.find(kSeparator) != std::string_view::npos &&
      location.find(kSeparator) < location.find_first_of("/?#"))
    return std::string(location);
  const Url from = parse_url(base);
  if (location.starts_with("//")) return from.scheme + ":" + std::string(location);
  const std::string host = from.scheme + std::string(kSeparator) + from.authority;
  if (location.starts_with('/')) return host + std::string(location);
  if (location.starts_with('?')) return host + from.path + std::string(location);
  const std::string folder = from.path.substr(0, from.path.rfind('/') + 1);
  const std::size_t query = std::min(location.find('?'), location.size());
  const std::string path = (folder.empty() ? "/" : folder) + std::string(location.substr(0, query));
  return host + without_dots(path) + std::string(location.substr(query));
}

}  // namespace torch_distinput
