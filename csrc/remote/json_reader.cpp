// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/json_reader.h"

#include <charconv>
#include <stdexcept>

#include "base/utf8_head.h"
#include "remote/character.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kMostLevels = 32;

[[noreturn]] void refuse_json(const char* problem) {
  throw std::runtime_error(std::string("bad JSON: ") + problem);
}

class JsonReader {
 public:
  JsonReader(std::string_view text, const std::function<void(const JsonPath&, const std::string&)>& leaf,
             const std::function<void(const JsonPath&)>& closed)
      : rest_(text), leaf_(leaf), closed_(closed) {}

  void read() {
    read_value();
    skip_white();
    if (!rest_.empty()) refuse_json("there is more after its end");
  }

 private:
  void skip_white() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

  /// Cuts `text` off, behind white space.
  bool cut(std::string_view text) {
    skip_white();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  void expect(std::string_view text) {
    if (!cut(text)) refuse_json("a sign is missing");
  }

  void read_value() {
    if (cut("{")) {
      read_members("}", [this] {
        expect("\"");
        path_.back() = read_string();
        expect(":");
      });
    } else if (cut("[")) {
      read_members("]", [this] { path_.back() = "[]"; });
    } else if (cut("\"")) {
      leaf_(path_, read_string());
    } else if (cut("true")) {
      leaf_(path_, "true");
    } else if (cut("false")) {
      leaf_(path_, "false");
    } else if (!cut("null")) {
      leaf_(path_, read_number());
    }
  }

  /// The members of an object or the elements of an array; `name` reads what is before a value.
  template <class Name>
  void read_members(std::string_view end, Name name) {
    if (path_.size() == kMostLevels) refuse_json("values are nested too deep");
    if (!cut(end)) {
      path_.emplace_back();
      do {
        name();
        read_value();
      } while (cut(","));
      path_.pop_back();
      expect(end);
    }
    if (closed_) closed_(path_);
  }

  /// The text behind a quote.
  std::string read_string() {
    std::string text;
    while (true) {
      if (rest_.empty()) refuse_json("it ends inside of a text");
      const char c = rest_.front();
      if (static_cast<unsigned char>(c) < 0x20) refuse_json("a text has a control character");
      const Utf8Head head = utf8_head(rest_);
      if (!head.whole) refuse_json("it is not in UTF-8");
      const std::string_view character = rest_.substr(0, head.size);
      rest_.remove_prefix(head.size);
      if (c == '"') return text;
      if (c == '\\') {
        read_escape(text);
      } else {
        text += character;
      }
    }
  }

  void read_escape(std::string& text) {
    constexpr std::string_view kSigns = "\"\\/bfnrt";
    constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    if (rest_.empty()) refuse_json("it ends inside of a text");
    const char sign = rest_.front();
    rest_.remove_prefix(1);
    if (sign == 'u') return append_character(text, read_code());
    const std::size_t place = kSigns.find(sign);
    if (place == std::string_view::npos) refuse_json("a backslash before a wrong sign");
    text += kMeant[place];
  }

  /// The number of the character behind "\u"; of one beyond 0xFFFF, two numbers come.
  std::uint32_t read_code() {
    const std::uint32_t first = read_hex();
    if (first < 0xD800 || first >= 0xDC00) return first;
    if (!rest_.starts_with("\\u")) refuse_json("half of a character");
    rest_.remove_prefix(2);
    const std::uint32_t second = read_hex();
    if (second < 0xDC00 || second >= 0xE000) refuse_json("half of a character");
    return 0x10000U + ((first - 0xD800U) << 10U) + (second - 0xDC00U);
  }

  std::uint32_t read_hex() {
    std::uint32_t code = 0;
    const std::string_view digits = rest_.substr(0, 4);
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (problem != std::errc() || end != digits.data() + 4) refuse_json("a number of a character");
    rest_.remove_prefix(4);
    return code;
  }

  std::string read_number() {
    const std::string_view begin = rest_;
    cut_sign("-");
    if (!rest_.starts_with('0')) {
      cut_digits();
    } else {
      rest_.remove_prefix(1);
    }
    if (cut_sign(".")) cut_digits();
    if (cut_sign("eE")) {
      cut_sign("+-");
      cut_digits();
    }
    return std::string(begin.substr(0, begin.size() - rest_.size()));
  }

  /// Cuts off a sign that is one of `signs`.
  bool cut_sign(std::string_view signs) {
    if (rest_.empty() || signs.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void cut_digits() {
    const std::size_t count = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    if (count == 0) refuse_json("a value is none");
    rest_.remove_prefix(count);
  }

  std::string_view rest_;
  const std::function<void(const JsonPath&, const std::string&)>& leaf_;
  const std::function<void(const JsonPath&)>& closed_;
  JsonPath path_;
};

}  // namespace

void read_json(std::string_view text,
               const std::function<void(const JsonPath& path, const std::string& value)>& leaf,
               const std::function<void(const JsonPath& path)>& closed) {
  JsonReader(text, leaf, closed).read();
}

}  // namespace torch_distinput
