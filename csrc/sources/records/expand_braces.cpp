// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <optional>

#include "sources/records/braces.h"
#include "torch_distinput/archives.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kMaxNames = 10'000'000;

[[noreturn]] void throw_too_many(const std::string& pattern, const std::string& op) {
  throw InvalidArgumentError(op + ": the pattern " + pattern + " names too many files.");
}

/// The texts of `{first..last}`; nullopt if `body` is not such a range. A leading 0 keeps the width.
std::optional<std::vector<std::string>> range_of(const std::string& body, const std::string& op) {
  const std::size_t dots = body.find("..");
  if (dots == std::string::npos) return std::nullopt;
  const auto number = [](std::string_view text) -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || text[0] == '-' || error != std::errc() || end != text.data() + text.size())
      return std::nullopt;
    return value;
  };
  const std::string first = body.substr(0, dots);
  const std::string last = body.substr(dots + 2);
  const auto begin = number(first);
  const auto end = number(last);
  if (!begin || !end) return std::nullopt;
  const std::int64_t step = *begin <= *end ? 1 : -1;
  if (static_cast<std::size_t>((*end - *begin) * step) >= kMaxNames) throw_too_many("{" + body + "}", op);
  const std::size_t width = first.size() > 1 && first[0] == '0' ? first.size() : 0;
  std::vector<std::string> texts;
  for (std::int64_t value = *begin; value != *end + step; value += step) {
    const std::string text = std::to_string(value);
    texts.push_back(std::string(width > text.size() ? width - text.size() : 0, '0') + text);
  }
  return texts;
}

std::vector<std::string> alternatives(const std::string& body, const std::string& op) {
  if (auto range = range_of(body, op)) return *std::move(range);
  std::vector<std::string> texts(1);
  for (const char letter : body) {
    if (letter == ',') {
      texts.emplace_back();
    } else {
      texts.back() += letter;
    }
  }
  return texts;
}

}  // namespace

std::vector<std::string> expand_braces(const std::string& pattern, const std::string& op) {
  const std::size_t open = pattern.find('{');
  const std::size_t close = pattern.find('}');
  if (open == std::string::npos && close == std::string::npos) return {pattern};
  if (open == std::string::npos || close == std::string::npos || close < open ||
      pattern.find('{', open + 1) < close) {
    throw InvalidArgumentError(op + ": braces in the pattern `" + pattern +
                               "` must come in pairs and must not be nested.");
  }
  const std::string quoted = "`" + pattern + "`";
  std::vector<std::string> names;
  const std::vector<std::string> rests = expand_braces(pattern.substr(close + 1), op);
  for (const std::string& text : alternatives(pattern.substr(open + 1, close - open - 1), op)) {
    for (const std::string& rest : rests) {
      if (names.size() >= kMaxNames) throw_too_many(quoted, op);
      std::string& name = names.emplace_back(pattern, 0, open);
      name.append(text).append(rest);
    }
  }
  return names;
}

std::vector<std::string> expand_braces(const std::string& pattern) {
  return expand_braces(pattern, "TarDataset");
}

}  // namespace torch_distinput
