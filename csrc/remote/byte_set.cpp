// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/byte_set.h"

#include <algorithm>
#include <iterator>

namespace torch_distinput {

void ByteSet::add(const ByteRange& range) {
  if (range.size == 0) return;
  std::uint64_t begin = range.offset;
  std::uint64_t end = range.end();
  auto next = ends_.upper_bound(begin);
  if (next != ends_.begin() && std::prev(next)->second >= begin) begin = (--next)->first;
  while (next != ends_.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = ends_.erase(next);
  }
  ends_.emplace_hint(next, begin, end);
}

void ByteSet::remove(const ByteRange& range) {
  if (range.size == 0) return;
  auto next = ends_.upper_bound(range.offset);
  if (next != ends_.begin() && std::prev(next)->second > range.offset) --next;
  while (next != ends_.end() && next->first < range.end()) {
    const auto [begin, end] = *next;
    next = ends_.erase(next);
    if (begin < range.offset) ends_.emplace(begin, range.offset);
    if (end > range.end()) next = ends_.emplace(range.end(), end).first;
  }
}

std::vector<ByteRange> ByteSet::ranges() const {
  std::vector<ByteRange> result;
  result.reserve(ends_.size());
  for (const auto& [begin, end] : ends_) result.push_back({begin, end - begin});
  return result;
}

}  // namespace torch_distinput
