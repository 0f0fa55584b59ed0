// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "torch_distinput/preprocessing.h"

namespace torch_distinput::preprocessing {

/// Writes `text` to `to` with ASCII letters in lower case and without ASCII punctuation, as `standardize`
/// asks; other characters stay, as in TensorFlow's `lower` without an encoding.
void standardize_text(std::string_view text, Standardize standardize, std::string& to);

/// Splits texts into tokens. Tokens are views of memory of the tokenizer, which the next `split` reuses. One
/// thread at a time.
class Tokenizer {
 public:
  /// `ngrams`: the widths of the n-grams that replace the tokens, all n-grams of one width after the other;
  /// empty: the tokens themselves.
  Tokenizer(Standardize standardize, Split split, std::vector<std::int64_t> ngrams);

  /// Whether texts are split, and not tokens themselves.
  bool splits() const noexcept { return split_ != Split::kNone; }
  /// The tokens of one text.
  const std::vector<std::string_view>& split(std::string_view text);
  /// The n-grams of a row of texts that are tokens themselves: each is standardized; views as from `split`.
  const std::vector<std::string_view>& join(const std::vector<std::string_view>& tokens);

 private:
  const std::vector<std::string_view>& ngrams_of(const std::vector<std::string_view>& tokens);

  Standardize standardize_;
  Split split_;
  std::vector<std::int64_t> widths_;
  std::string text_;
  std::vector<std::string> texts_;
  std::vector<std::string_view> tokens_;
  std::string joined_;
  std::vector<std::size_t> ends_;
  std::vector<std::string_view> ngrams_;
};

}  // namespace torch_distinput::preprocessing
