// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/range_plan.h"

#include <algorithm>

#include "remote/byte_set.h"

namespace torch_distinput {
namespace {

void cut(const ByteRange& range, std::uint64_t most, std::vector<ByteRange>& into) {
  const std::uint64_t pieces = (range.size + most - 1) / most;
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const std::uint64_t begin = range.size / pieces * i + std::min(i, range.size % pieces);
    const std::uint64_t size = range.size / pieces + (i < range.size % pieces ? 1 : 0);
    into.push_back({range.offset + begin, size});
  }
}

}  // namespace

std::vector<ByteRange> first_bytes(std::span<const ByteRange> ranges, std::uint64_t most) {
  std::vector<ByteRange> result;
  for (const ByteRange& range : ranges) {
    if (most == 0) break;
    result.push_back({range.offset, std::min(range.size, most)});
    most -= result.back().size;
  }
  return result;
}

std::vector<ByteRange> plan_requests(std::span<const ByteRange> ranges, const RangeRules& rules) {
  ByteSet bytes;
  for (const ByteRange& range : ranges) bytes.add(range);
  std::vector<ByteRange> joined;
  double wanted = 0;
  double wasted = 0;
  for (const ByteRange& range : bytes.ranges()) {
    const auto size = static_cast<double>(range.size);
    if (!joined.empty()) {
      const std::uint64_t gap = range.offset - joined.back().end();
      const double waste = wasted + static_cast<double>(gap);
      const bool is_short = range.end() - joined.back().offset <= rules.most;
      if (gap <= rules.gap && is_short && waste <= rules.most_waste * (wanted + size)) {
        joined.back().size = range.end() - joined.back().offset;
        wasted = waste;
        wanted += size;
        continue;
      }
    }
    joined.push_back(range);
    wanted = size;
    wasted = 0;
  }
  std::vector<ByteRange> result;
  for (const ByteRange& range : joined) cut(range, rules.most, result);
  return result;
}

}  // namespace torch_distinput
