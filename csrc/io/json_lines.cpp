// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/json_lines.h"

#include <array>
#include <cstring>

#include "io/utf8.h"

namespace torch_distinput {
namespace {

using Kind = JsonFault::Kind;

bool is_white(char character) { return character == ' ' || character == '\t' || character == '\r'; }

const char* skip_white(const char* at, const char* end) {
  while (at != end && is_white(*at)) ++at;
  return at;
}

/// The characters between quotes and brackets, which most are, by their code.
constexpr std::array<bool, 256> plain_characters() {
  std::array<bool, 256> plain{};
  plain.fill(true);
  for (const char character : {'"', '{', '[', '}', ']'})
    plain.at(static_cast<unsigned char>(character)) = false;
  return plain;
}
constexpr std::array<bool, 256> kPlain = plain_characters();

/// The byte after the quote that ends the text which begins at `at`; null where none does.
const char* end_of_text(const char* at, const char* end) {
  for (; at != end && *at != '"'; ++at) {
    if (*at != '\\') continue;
    ++at;
    if (at == end) return nullptr;
  }
  return at != end ? at + 1 : nullptr;
}

/// What is wrong with the line [`at`, `end`), whose line end is left out.
std::optional<Kind> fault_of(const char* at, const char* end) {
  at = skip_white(at, end);
  if (at == end) return std::nullopt;
  if (*at != '{') return Kind::kNoObject;
  int depth = 0;
  while (at != end) {
    const char character = *at++;
    if (kPlain[static_cast<unsigned char>(character)]) continue;
    if (character == '"') {
      at = end_of_text(at, end);
      if (at == nullptr) return Kind::kUnclosed;
    } else if (character == '{' || character == '[') {
      if (++depth > kMaxJsonDepth) return Kind::kTooDeep;
    } else if (--depth == 0) {
      return skip_white(at, end) == end ? std::nullopt : std::optional(Kind::kNoObject);
    }
  }
  return Kind::kUnclosed;
}

}  // namespace

std::optional<JsonFault> find_json_fault(std::span<const char> text) {
  const char* const data = text.data();
  const char* const end = data + text.size();
  const char* const text_end = data + utf8_prefix(text);
  for (const char* line = data; line != end;) {
    const void* const found = std::memchr(line, '\n', static_cast<std::size_t>(end - line));
    const char* const line_end = found == nullptr ? end : static_cast<const char*>(found);
    const char* const next = found == nullptr ? end : line_end + 1;
    const auto kind = text_end < line_end ? std::optional(Kind::kNoText) : fault_of(line, line_end);
    if (kind)
      return JsonFault{*kind, static_cast<std::uint64_t>(line - data),
                       static_cast<std::uint64_t>(next - data)};
    line = next;
  }
  return std::nullopt;
}

}  // namespace torch_distinput
