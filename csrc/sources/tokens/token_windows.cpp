// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/tokens/token_windows.h"

#include <algorithm>
#include <utility>

namespace torch_distinput {

TokenRows::TokenRows(std::int64_t tokens, std::vector<std::int64_t> ends, const TokenCuts& cuts)
    : cuts_(cuts), ends_(std::move(ends)) {
  if (!cuts_.length) {
    size_ = static_cast<std::int64_t>(ends_.size());
  } else if (!cuts_.by_document) {
    size_ = rows_of(tokens);
  } else {
    rows_before_.reserve(ends_.size());
    std::int64_t begin = 0;
    for (const std::int64_t end : ends_) {
      size_ += rows_of(end - begin);
      rows_before_.push_back(size_);
      begin = end;
    }
  }
}

std::int64_t TokenRows::rows_of(std::int64_t tokens) const noexcept {
  return tokens < *cuts_.length ? 0 : (tokens - *cuts_.length) / cuts_.stride + 1;
}

TokenRows::Extent TokenRows::operator[](std::int64_t row) const noexcept {
  const auto begin_of = [this](std::size_t document) { return document == 0 ? 0 : ends_[document - 1]; };
  if (!cuts_.length) {
    const std::int64_t begin = begin_of(static_cast<std::size_t>(row));
    return {begin, ends_[static_cast<std::size_t>(row)] - begin};
  }
  if (!cuts_.by_document) return {row * cuts_.stride, *cuts_.length};
  const auto found = std::upper_bound(rows_before_.begin(), rows_before_.end(), row);
  const auto document = static_cast<std::size_t>(found - rows_before_.begin());
  const std::int64_t before = document == 0 ? 0 : rows_before_[document - 1];
  return {begin_of(document) + (row - before) * cuts_.stride, *cuts_.length};
}

}  // namespace torch_distinput
