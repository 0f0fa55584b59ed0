// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <c10/util/Exception.h>

#include "core/utf8.h"
#include "torch_distinput/state.h"

namespace torch_distinput {
namespace {

/// Far deeper than states of real pipelines, and within a small part of a thread's stack.
constexpr int kMaxNesting = 1000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Reads JSON (RFC 8259), and `NaN` and `Infinity` as Python writes them.
class StateParser {
 public:
  explicit StateParser(std::string_view text) : text_(text) {}

  State whole() {
    State state = value(0);
    skip_space();
    check(at_ == text_.size(), "the end");
    return state;
  }

 private:
  State value(int depth) {
    TORCH_CHECK_VALUE(depth <= kMaxNesting, "State.parse: must be nested at most ", kMaxNesting,
                      " deep, but is deeper at byte ", at_, ".");
    skip_space();
    if (take("{")) return map(depth);
    if (take("[")) return list(depth);
    if (take("\"")) return string();
    if (take("null")) return {};
    if (take("true")) return true;
    if (take("false")) return false;
    if (take("NaN")) return std::numeric_limits<double>::quiet_NaN();
    if (take("Infinity")) return std::numeric_limits<double>::infinity();
    if (take("-Infinity")) return -std::numeric_limits<double>::infinity();
    return number();
  }

  State map(int depth) {
    State::Map entries;
    skip_space();
    if (take("}")) return entries;
    do {
      skip_space();
      const std::size_t key_at = at_;
      check(take("\""), "a key in quotes");
      std::string key = string();
      skip_space();
      check(take(":"), "':'");
      const auto [entry, is_new] = entries.try_emplace(std::move(key), value(depth + 1));
      TORCH_CHECK_VALUE(is_new, "State.parse: the key '", entry->first,
                        "' must occur once, but occurs again at byte ", key_at, ".");
      skip_space();
    } while (take(","));
    check(take("}"), "',' or '}'");
    return entries;
  }

  State list(int depth) {
    State::List entries;
    skip_space();
    if (take("]")) return entries;
    do {
      entries.push_back(value(depth + 1));
      skip_space();
    } while (take(","));
    check(take("]"), "',' or ']'");
    return entries;
  }

  /// The rest of a string after its opening quote.
  std::string string() {
    std::string result;
    while (!take("\"")) {
      check(at_ < text_.size() && static_cast<unsigned char>(text_[at_]) >= ' ', "a character or '\"'");
      if (take("\\"))
        escaped(result);
      else
        result += text_[at_++];
    }
    return result;
  }

  void escaped(std::string& result) {
    constexpr std::string_view kPlain = "\"\\/bfnrt";
    constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    if (take("u")) {
      char32_t code = unit();
      const std::size_t after = at_;
      if (is_high_surrogate(code) && take("\\u")) {
        const char32_t low = unit();
        if (is_low_surrogate(low))
          code = code_of_surrogates(code, low);
        else
          at_ = after;
      }
      append_code_point(result, code);
      return;
    }
    const auto which = at_ < text_.size() ? kPlain.find(text_[at_]) : std::string_view::npos;
    check(which != std::string_view::npos, "an escape sequence");
    result += kMeant[which];
    ++at_;
  }

  char32_t unit() {
    constexpr std::size_t kDigits = 4;
    constexpr int kHex = 16;
    std::uint32_t code = 0;
    const char* const begin = text_.data() + at_;
    const bool long_enough = text_.size() - at_ >= kDigits;
    check(long_enough && std::from_chars(begin, begin + kDigits, code, kHex).ptr == begin + kDigits,
          "four hexadecimal digits");
    at_ += kDigits;
    return code;
  }

  State number() {
    const std::size_t begin = at_;
    take("-");
    const std::size_t first = at_;
    digits();
    check(text_[first] != '0' || at_ == first + 1, "no digit after a leading 0");
    bool whole = true;
    if (take(".")) {
      whole = false;
      digits();
    }
    if (take("e") || take("E")) {
      whole = false;
      if (!take("+")) take("-");
      digits();
    }
    const std::string_view literal = text_.substr(begin, at_ - begin);
    return whole ? State(read<std::int64_t>(literal, begin)) : State(read<double>(literal, begin));
  }

  void digits() {
    check(at_ < text_.size() && is_digit(text_[at_]), "a value");
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  }

  template <class Number>
  static Number read(std::string_view literal, std::size_t begin) {
    Number number{};
    const auto error = std::from_chars(literal.data(), literal.data() + literal.size(), number).ec;
    TORCH_CHECK_VALUE(error == std::errc(), "State.parse: the number at byte ", begin,
                      " must fit in 64 bits, but is ", literal, ".");
    return number;
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }

  bool take(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }

  void check(bool fits, const char* wanted) const {
    constexpr std::size_t kShown = 20;
    TORCH_CHECK_VALUE(fits, "State.parse: expected ", wanted, " at byte ", at_, ", found ",
                      at_ < text_.size() ? "'" + std::string(text_.substr(at_, kShown)) + "'" : "the end",
                      ".");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

State State::parse(std::string_view text) { return StateParser(text).whole(); }

}  // namespace torch_distinput
