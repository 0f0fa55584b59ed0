// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/peer_text.h"

#include <charconv>
#include <limits>
#include <system_error>

namespace torch_distinput {
namespace {

/// The longest number, `-9223372036854775808`.
constexpr std::size_t kMostDigits = 20;

/// `text` for messages: its beginning, with what is not printable as `?`.
std::string shown(std::string_view text) {
  constexpr std::size_t kShown = 24;
  std::string result = "'";
  for (const char c : text.substr(0, kShown)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > kShown ? "...'" : "'");
}

/// Whether all of `word` is a number as a writer writes it: no `+`, no leading zeros.
template <class Number>
bool parse(std::string_view word, Number& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() && std::to_string(number) == word;
}

}  // namespace

std::string_view PeerTextReader::word(const char* what) {
  const std::size_t end = left_.substr(0, kMostDigits + 1).find(' ');
  if (end == std::string_view::npos) fail(what, "a number and a space", shown(left_));
  const std::string_view digits = left_.substr(0, end);
  left_.remove_prefix(end + 1);
  return digits;
}

std::int64_t PeerTextReader::integer(const char* what, std::int64_t least, std::int64_t most) {
  const std::string_view digits = word(what);
  std::int64_t value = 0;
  if (!parse(digits, value) || value < least || value > most) {
    fail(what, "an integer in [" + std::to_string(least) + ", " + std::to_string(most) + "]", shown(digits));
  }
  return value;
}

std::uint64_t PeerTextReader::bits(const char* what) {
  const std::string_view digits = word(what);
  std::uint64_t value = 0;
  if (!parse(digits, value)) fail(what, "an integer of 64 bits without a sign", shown(digits));
  return value;
}

std::size_t PeerTextReader::count(const char* what) {
  constexpr std::size_t kLeastBytes = 2;
  const std::string_view digits = word(what);
  std::uint64_t value = 0;
  if (!parse(digits, value) || value > left_.size() / kLeastBytes)
    fail(what, "the number of entries in the " + std::to_string(left_.size()) + " bytes that follow",
         shown(digits));
  return static_cast<std::size_t>(value);
}

std::string_view PeerTextReader::string(const char* what) {
  const std::string_view digits = word(what);
  std::uint64_t length = 0;
  if (!parse(digits, length) || length > left_.size())
    fail(what, "as long as it says, with " + std::to_string(left_.size()) + " bytes left",
         shown(digits) + " bytes long");
  const std::string_view value = left_.substr(0, static_cast<std::size_t>(length));
  left_.remove_prefix(value.size());
  return value;
}

void PeerTextReader::end() const {
  if (!left_.empty()) fail("the text", "at its end", "followed by " + shown(left_));
}

void PeerTextReader::fail(const char* what, const std::string& rule, const std::string& found) const {
  throw PeerTextError(
      whose_ + ": " + what + " must be " + rule + ", but is " + found +
      ". Did another program, or another version of the library, write to the group's store?");
}

}  // namespace torch_distinput
