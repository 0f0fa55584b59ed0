// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/preprocessing/tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8_head.h"

namespace torch_distinput::preprocessing {
namespace {

constexpr std::string_view kPunctuation = "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~'";
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
constexpr int kDropped = -1;

/// What becomes of each byte: itself, another one, or `kDropped`.
using ByteMap = std::array<int, 256>;

ByteMap byte_map(Standardize standardize) {
  ByteMap map{};
  for (int byte = 0; byte < 256; ++byte) map[static_cast<std::size_t>(byte)] = byte;
  if (standardize == Standardize::kLower || standardize == Standardize::kLowerAndStripPunctuation) {
    for (int byte = 'A'; byte <= 'Z'; ++byte) map[static_cast<std::size_t>(byte)] = byte - 'A' + 'a';
  }
  if (standardize == Standardize::kStripPunctuation ||
      standardize == Standardize::kLowerAndStripPunctuation) {
    for (const char byte : kPunctuation) map[static_cast<unsigned char>(byte)] = kDropped;
  }
  return map;
}

bool is_space(char byte) noexcept { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

void split_at_spaces(std::string_view text, std::vector<std::string_view>& tokens) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    while (at != end && is_space(*at)) ++at;
    if (at == end) return;
    const char* const begin = at;
    while (at != end && !is_space(*at)) ++at;
    tokens.emplace_back(begin, static_cast<std::size_t>(at - begin));
  }
}

/// Splits UTF-8 into characters. Bytes that are none become U+FFFD, one for each maximal part of a character.
void split_into_characters(std::string_view text, std::vector<std::string_view>& tokens) {
  while (!text.empty()) {
    const auto [size, whole] = utf8_head(text);
    tokens.push_back(whole ? text.substr(0, size) : kReplacement);
    text.remove_prefix(size);
  }
}

}  // namespace

void standardize_text(std::string_view text, Standardize standardize, std::string& to) {
  static const std::array<ByteMap, 4> kMaps{byte_map(Standardize::kNone), byte_map(Standardize::kLower),
                                            byte_map(Standardize::kStripPunctuation),
                                            byte_map(Standardize::kLowerAndStripPunctuation)};
  const ByteMap& map = kMaps[static_cast<std::size_t>(standardize)];
  to.resize(text.size());
  char* at = to.data();
  for (const char byte : text) {
    const int mapped = map[static_cast<unsigned char>(byte)];
    *at = static_cast<char>(mapped);
    at += mapped != kDropped;
  }
  to.resize(static_cast<std::size_t>(at - to.data()));
}

Tokenizer::Tokenizer(Standardize standardize, Split split, std::vector<std::int64_t> ngrams)
    : standardize_(standardize), split_(split), widths_(std::move(ngrams)) {}

const std::vector<std::string_view>& Tokenizer::split(std::string_view text) {
  if (standardize_ != Standardize::kNone) {
    standardize_text(text, standardize_, text_);
    text = text_;
  }
  tokens_.clear();
  if (split_ == Split::kWhitespace) {
    split_at_spaces(text, tokens_);
  } else if (split_ == Split::kCharacter) {
    split_into_characters(text, tokens_);
  } else {
    tokens_.push_back(text);
  }
  return ngrams_of(tokens_);
}

const std::vector<std::string_view>& Tokenizer::join(const std::vector<std::string_view>& tokens) {
  if (standardize_ == Standardize::kNone) return ngrams_of(tokens);
  if (texts_.size() < tokens.size()) texts_.resize(tokens.size());
  tokens_.clear();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    standardize_text(tokens[i], standardize_, texts_[i]);
    tokens_.emplace_back(texts_[i]);
  }
  return ngrams_of(tokens_);
}

const std::vector<std::string_view>& Tokenizer::ngrams_of(const std::vector<std::string_view>& tokens) {
  if (widths_.empty()) return tokens;
  joined_.clear();
  ends_.clear();
  for (const std::int64_t width : widths_) {
    const auto count = static_cast<std::size_t>(width);
    for (std::size_t first = 0; first + count <= tokens.size(); ++first) {
      for (std::size_t i = 0; i < count; ++i) {
        if (i > 0) joined_ += ' ';
        joined_ += tokens[first + i];
      }
      ends_.push_back(joined_.size());
    }
  }
  ngrams_.clear();
  std::size_t begin = 0;
  for (const std::size_t end : ends_) {
    ngrams_.emplace_back(joined_.data() + begin, end - begin);
    begin = end;
  }
  return ngrams_;
}

}  // namespace torch_distinput::preprocessing
