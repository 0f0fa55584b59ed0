// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace torch_distinput {

/// How a stream of tokens becomes rows.
struct TokenCuts {
  std::optional<std::int64_t> length;  ///< tokens of a row; unset: a row is a whole document
  std::int64_t stride = 1;             ///< tokens from the start of one row to that of the next
  bool by_document = false;            ///< rows begin anew in each document and hold tokens of one only
};

/// Where the rows of one stream of tokens lie. Immutable; safe from any thread.
class TokenRows {
 public:
  /// `ends`: the end of each document, increasing, the last one at `tokens`; empty if documents do not
  /// matter.
  TokenRows(std::int64_t tokens, std::vector<std::int64_t> ends, const TokenCuts& cuts);

  std::int64_t size() const noexcept { return size_; }
  /// Tokens [begin, begin + count) of the stream.
  struct Extent {
    std::int64_t begin;
    std::int64_t count;
  };
  /// REQUIRES: 0 <= `row` < `size()`.
  Extent operator[](std::int64_t row) const noexcept;

 private:
  /// Rows of a stretch of `tokens` tokens.
  std::int64_t rows_of(std::int64_t tokens) const noexcept;

  TokenCuts cuts_;
  std::vector<std::int64_t> ends_;
  std::vector<std::int64_t>
      rows_before_;  ///< the end of each document; only where rows are cut from documents
  std::int64_t size_ = 0;
};

}  // namespace torch_distinput
