// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/glob.h"

#include "remote/text.h"

namespace torch_distinput {
namespace {

/// The place of the first wildcard; npos where there is none.
std::size_t first_wildcard(std::string_view pattern) {
  const std::size_t path = pattern.find("://") == std::string_view::npos ? 0 : pattern.find("://") + 3;
  const std::size_t found = pattern.find_first_of("*?[", path);
  const std::string scheme = lower(pattern.substr(0, path));
  const bool has_query = scheme == "http://" || scheme == "https://";
  return has_query && found != std::string_view::npos && pattern[found] == '?' ? std::string_view::npos
                                                                               : found;
}

/// A set such as "[a-z]" at the front of `pattern`, which is cut off; whether `c` is in it. Without "]", it
/// is the byte "[".
bool in_set(std::string_view& pattern, char c) {
  const std::size_t from = pattern.size() > 1 && pattern[1] == '!' ? 2 : 1;
  const std::size_t end = pattern.find(']', from + 1);
  if (end == std::string_view::npos) {
    pattern.remove_prefix(1);
    return c == '[';
  }
  bool found = false;
  for (std::size_t i = from; i < end; ++i) {
    const bool is_range = i + 2 < end && pattern[i + 1] == '-';
    const auto byte = static_cast<unsigned char>(c);
    const auto low = static_cast<unsigned char>(pattern[i]);
    const auto high = static_cast<unsigned char>(pattern[is_range ? i + 2 : i]);
    found |= low <= byte && byte <= high;
    if (is_range) i += 2;
  }
  pattern.remove_prefix(end + 1);
  return c != '/' && found == (from == 1);
}

}  // namespace

bool has_wildcard(std::string_view pattern) { return first_wildcard(pattern) != std::string_view::npos; }

std::string fixed_prefix(std::string_view pattern) {
  return std::string(pattern.substr(0, first_wildcard(pattern)));
}

bool matches(std::string_view pattern, std::string_view text) {
  // The last "*" and "**" that may take one more byte of the text: going back to them alone is enough.
  struct Star {
    std::string_view pattern;
    std::string_view text;
    bool is_set = false;
  };
  Star single;
  Star twofold;
  while (true) {
    if (pattern.starts_with("**")) {
      pattern.remove_prefix(2);
      twofold = {pattern, text, true};
      single = {};
      continue;
    }
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      single = {pattern, text, true};
      continue;
    }
    if (text.empty() && pattern.empty()) return true;
    bool fits = !text.empty() && !pattern.empty();
    if (fits) {
      const char c = text.front();
      if (pattern.front() == '[') {
        fits = in_set(pattern, c);
      } else {
        fits = pattern.front() == '?' ? c != '/' : pattern.front() == c;
        pattern.remove_prefix(1);
      }
      text.remove_prefix(1);
    }
    if (fits) continue;
    if (single.is_set && !single.text.empty() && single.text.front() != '/') {
      single.text.remove_prefix(1);
      pattern = single.pattern;
      text = single.text;
    } else if (twofold.is_set && !twofold.text.empty()) {
      twofold.text.remove_prefix(1);
      single = {};
      pattern = twofold.pattern;
      text = twofold.text;
    } else {
      return false;
    }
  }
}

}  // namespace torch_distinput
