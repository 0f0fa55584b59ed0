// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "core/utf8.h"
#include "torch_distinput/state.h"

namespace torch_distinput {
namespace {

/// Writes what Python's `json.dumps(..., sort_keys=True)` writes. Bytes that are not UTF-8 become the lone
/// surrogates that Python's "surrogateescape" makes of them.
struct StatePrinter {
  std::string& out;

  void operator()(std::monostate) const { out += "null"; }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(std::int64_t value) const { out += std::to_string(value); }

  void operator()(double value) const {
    // As Python's repr: the shortest digits that give the number back, with an exponent below 1e-4 and from
    // 1e16 on.
    constexpr double kMinFixed = 1e-4;
    constexpr double kMaxFixed = 1e16;
    if (std::isnan(value)) {
      out += "NaN";
    } else if (std::isinf(value)) {
      out += value < 0 ? "-Infinity" : "Infinity";
    } else {
      const double size = std::abs(value);
      const bool fixed = size == 0 || (size >= kMinFixed && size < kMaxFixed);
      std::array<char, 40> digits{};
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                     fixed ? std::chars_format::fixed : std::chars_format::scientific)
                           .ptr;
      const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
      out += text;
      if (fixed && text.find('.') == std::string_view::npos) out += ".0";
    }
  }

  void operator()(const std::string& value) const {
    out += '"';
    for (std::string_view rest = value; !rest.empty();) character(take_code_point(rest));
    out += '"';
  }

  void operator()(const State::List& values) const {
    const char* separator = "";
    out += '[';
    for (const State& value : values) {
      out += std::exchange(separator, ", ");
      std::visit(*this, value.value());
    }
    out += ']';
  }

  void operator()(const State::Map& values) const {
    const char* separator = "";
    out += '{';
    for (const auto& [name, value] : values) {
      out += std::exchange(separator, ", ");
      (*this)(name);
      out += ": ";
      std::visit(*this, value.value());
    }
    out += '}';
  }

 private:
  void character(char32_t code) const {
    constexpr std::string_view kShort = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (std::size_t i = 0; i < kShort.size(); i += 2) {
      if (code != static_cast<unsigned char>(kShort[i])) continue;
      out += '\\';
      out += kShort[i + 1];
      return;
    }
    if (code >= ' ' && code <= '~') {
      out += static_cast<char>(code);
    } else if (code < kFirstSupplementary) {
      unit(code);
    } else {
      const auto [high, low] = surrogates_of(code);
      unit(high);
      unit(low);
    }
  }

  void unit(char32_t code) const {
    constexpr std::string_view kHex = "0123456789abcdef";
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += kHex[(code >> shift) & 0xF];
  }
};

}  // namespace

std::string State::str() const {
  std::string text;
  std::visit(StatePrinter{text}, value_);
  return text;
}

}  // namespace torch_distinput
