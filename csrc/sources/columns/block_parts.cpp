// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/block_parts.h"

#include <exception>

#include "core/interrupt_watch.h"

namespace torch_distinput {

std::optional<BlockParts::Part> BlockParts::next() {
  const InterruptWatch watch;
  while (!left_.empty()) {
    const auto [begin, end] = left_.back();
    try {
      BlockPtr rows = make_(begin, end);
      left_.pop_back();
      return Part{std::move(rows), begin};
    } catch (const std::exception&) {
      if (watch.interrupt()) throw;
      left_.pop_back();
      if (end - begin <= 1) throw;
    }
    const std::int64_t middle = begin + (end - begin) / 2;
    left_.emplace_back(middle, end);
    left_.emplace_back(begin, middle);
  }
  return std::nullopt;
}

}  // namespace torch_distinput
