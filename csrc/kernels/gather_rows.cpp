// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "kernels/prefetch.h"
#include "kernels/rows.h"
#include "runtime/side_by_side.h"

namespace torch_distinput {
namespace {

/// Rows up to this size are copied by code compiled for their size, without a call of memcpy.
constexpr std::size_t kInlineBytes = 128;
/// The bytes to prefetch ahead. For larger rows the hardware's own prefetcher is enough.
constexpr std::int64_t kPrefetchBytes = 4096;
constexpr std::int64_t kMaxRowsAhead = 12;
/// One thread copies a few GB a second, several many more. To wake another one takes as long as to copy some
/// hundred KiB.
constexpr std::int64_t kPieceBytes = std::int64_t{2} << 20;

struct Gather {
  const char* source;
  std::int64_t row_stride;
  const std::int64_t* positions;
  std::int64_t count;
  const std::int64_t* slots;
  RowSink sink;

  const char* from(std::int64_t i) const { return source + positions[i] * row_stride; }
  char* to(std::int64_t i) const { return sink.data + (slots == nullptr ? i : slots[i]) * sink.row_bytes; }
  /// Rows [begin, end) of this one.
  Gather piece(std::int64_t begin, std::int64_t end) const {
    Gather result = *this;
    result.positions += begin;
    result.count = end - begin;
    if (slots == nullptr)
      result.sink.data += begin * sink.row_bytes;
    else
      result.slots += begin;
    return result;
  }
};

/// Random rows miss the cache and the TLB; prefetching a few rows ahead overlaps these misses.
template <class Copy>
void copy_rows(const Gather& gather, std::int64_t row_bytes, Copy copy) {
  const std::int64_t ahead = std::clamp<std::int64_t>(kPrefetchBytes / row_bytes, 0, kMaxRowsAhead);
  const std::int64_t prefetched = ahead == 0 ? 0 : std::max<std::int64_t>(0, gather.count - ahead);
  std::int64_t i = 0;
  for (; i < prefetched; ++i) {
    prefetch_lines(gather.from(i + ahead), row_bytes);
    copy(gather.to(i), gather.from(i));
  }
  for (; i < gather.count; ++i) copy(gather.to(i), gather.from(i));
}

template <std::size_t kBytes>
void copy_rows_of(const Gather& gather) {
  copy_rows(gather, kBytes, [](char* to, const char* from) { std::memcpy(to, from, kBytes); });
}

void copy_rows_of_any_size(const Gather& gather) {
  const std::int64_t bytes = gather.sink.row_bytes;
  copy_rows(gather, bytes, [bytes](char* to, const char* from) { std::memcpy(to, from, bytes); });
}

using CopyRows = void (*)(const Gather&);

constexpr std::size_t kUnit = 4;

/// Entry k copies rows of (k + 1) * kUnit bytes.
template <std::size_t... kIndex>
constexpr std::array<CopyRows, sizeof...(kIndex)> sized_copies(std::index_sequence<kIndex...>) {
  return {copy_rows_of<(kIndex + 1) * kUnit>...};
}
constexpr auto kSizedCopies = sized_copies(std::make_index_sequence<kInlineBytes / kUnit>{});

CopyRows copy_for(std::int64_t row_bytes) {
  const auto bytes = static_cast<std::size_t>(row_bytes);
  if (bytes == 1) return copy_rows_of<1>;
  if (bytes == 2) return copy_rows_of<2>;
  if (bytes % kUnit == 0 && bytes <= kInlineBytes) return kSizedCopies[bytes / kUnit - 1];
  return copy_rows_of_any_size;
}

/// Returns whether adjacent rows go to adjacent rows, so that one memcpy copies all.
bool is_one_piece(const Gather& gather) {
  if (gather.slots != nullptr || gather.row_stride != gather.sink.row_bytes) return false;
  const std::int64_t first = gather.positions[0];
  // Random positions nearly always fail here, so that only likely runs are checked in full.
  if (gather.positions[gather.count - 1] - first != gather.count - 1) return false;
  for (std::int64_t i = 1; i < gather.count; ++i) {
    if (gather.positions[i] != first + i) return false;
  }
  return true;
}

void copy(const Gather& gather) {
  if (is_one_piece(gather)) {
    std::memcpy(gather.sink.data, gather.from(0),
                static_cast<std::size_t>(gather.count * gather.sink.row_bytes));
  } else {
    copy_for(gather.sink.row_bytes)(gather);
  }
}

}  // namespace

void gather_rows(const char* source, std::int64_t row_stride, std::span<const std::int64_t> positions,
                 std::span<const std::int64_t> slots, RowSink sink) {
  const auto count = static_cast<std::int64_t>(positions.size());
  if (count == 0 || sink.row_bytes == 0) return;
  const Gather gather{source, row_stride, positions.data(), count, slots.empty() ? nullptr : slots.data(),
                      sink};
  side_by_side(count, std::max<std::int64_t>(1, kPieceBytes / sink.row_bytes),
               [&](std::int64_t begin, std::int64_t end) { copy(gather.piece(begin, end)); });
}

}  // namespace torch_distinput
