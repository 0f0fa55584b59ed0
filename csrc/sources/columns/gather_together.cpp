// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/gather_together.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/prefetch.h"
#include "kernels/sized_copy.h"
#include "runtime/side_by_side.h"

namespace torch_distinput {
namespace {

/// Rows that are copied leaf by leaf while they, and those that come next, are in the fastest cache.
constexpr std::int64_t kRowsAtATime = 32;
/// As much as one thread should copy at least.
constexpr std::int64_t kLeastBytes = std::int64_t{2} << 20;

/// A leaf of a block on its way to a leaf, or a part of one, of an element.
struct LeafCopy {
  std::int64_t from;   ///< from the beginning of a row, in bytes
  std::int64_t bytes;  ///< of one row
  RowSink to;
};

std::vector<const char*> addresses_of(std::span<const BlockRun> runs) {
  std::vector<const char*> rows;
  for (const BlockRun& run : runs) {
    const auto& [data, stride] = run.block->together;
    for (const std::int64_t row : run.rows) rows.push_back(data + row * stride);
  }
  return rows;
}

/// The same for all blocks: where a leaf lies in its row follows from the types of all leaves.
std::vector<LeafCopy> copies_of(const RowType& type, const RowBlock& block, std::span<const RowSink> sinks) {
  std::vector<LeafCopy> copies;
  for (std::size_t leaf = 0; leaf < sinks.size(); ++leaf) {
    RowSink to = sinks[leaf];
    for (const std::size_t stored : type.sources[leaf].stored) {
      const auto& tensor = std::get<at::Tensor>(block.value.leaves()[stored]);
      const auto bytes = static_cast<std::int64_t>(tensor.nbytes()) / block.rows;
      if (bytes > 0) copies.push_back({block.dense[stored].data - block.together.data, bytes, to});
      to.data += bytes;
    }
  }
  return copies;
}

/// Rows whose leaves lie together, on their way to sinks.
struct RowCopies {
  std::vector<const char*> rows;
  std::int64_t row_bytes;
  std::span<const std::int64_t> slots;
  std::vector<LeafCopy> leaves;

  /// Of rows [`begin`, `end`).
  void copy(std::int64_t begin, std::int64_t end) const {
    prefetch(begin, std::min(begin + kRowsAtATime, end));
    for (std::int64_t tile = begin; tile < end; tile += kRowsAtATime) {
      const std::int64_t next = std::min(tile + kRowsAtATime, end);
      prefetch(next, std::min(next + kRowsAtATime, end));
      for (const LeafCopy& leaf : leaves) copy_leaf(leaf, tile, next);
    }
  }

 private:
  void prefetch(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; ++i) prefetch_lines(rows[static_cast<std::size_t>(i)], row_bytes);
  }

  void copy_leaf(const LeafCopy& leaf, std::int64_t begin, std::int64_t end) const {
    // Of its own, so that the compiler knows that no copied byte changes them.
    const auto [from, all_bytes, to] = leaf;
    const char* const* const row = rows.data();
    const std::int64_t* const slot = slots.empty() ? nullptr : slots.data();
    with_known_size(all_bytes, [=](auto bytes) {
      for (std::int64_t i = begin; i < end; ++i)
        std::memcpy(to.data + (slot == nullptr ? i : slot[i]) * to.row_bytes, row[i] + from,
                    static_cast<std::size_t>(bytes));
    });
  }
};

}  // namespace

bool lie_together(std::span<const BlockRun> runs) {
  return !runs.empty() && std::all_of(runs.begin(), runs.end(), [](const BlockRun& run) {
    return run.block->together.data != nullptr;
  });
}

void gather_together(const RowType& type, std::span<const BlockRun> runs, std::span<const std::int64_t> slots,
                     std::span<const RowSink> sinks) {
  const RowBlock& block = *runs.front().block;
  const RowCopies copies{addresses_of(runs), block.together.stride, slots, copies_of(type, block, sinks)};
  side_by_side(std::ssize(copies.rows), kLeastBytes / copies.row_bytes,
               [&](std::int64_t begin, std::int64_t end) { copies.copy(begin, end); });
}

}  // namespace torch_distinput
