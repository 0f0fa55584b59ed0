// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/rows_together.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/rows.h"
#include "kernels/sized_copy.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kFewestLeaves = 3;
/// Four lines of the cache: beyond that, leaves that lie apart waste little of theirs.
constexpr std::int64_t kMostBytes = 256;
/// Rows whose places stay in the cache while one leaf after the other is written there.
constexpr std::int64_t kTile = 256;

/// A dense leaf in memory that all share.
struct Part {
  std::size_t leaf;
  std::int64_t bytes;  ///< of one row
  std::int64_t item;   ///< bytes of one number
  std::int64_t offset = 0;
};

std::int64_t bytes_a_row(const at::Tensor& leaf) {
  return static_cast<std::int64_t>(leaf.nbytes()) / std::max<std::int64_t>(leaf.size(0), 1);
}

/// The dense leaves with bytes, those of the largest numbers first, so that all are aligned.
std::vector<Part> parts_of(const RowBlock& block) {
  std::vector<Part> parts;
  for (std::size_t leaf = 0; leaf < block.value.leaves().size(); ++leaf) {
    const auto* const tensor = std::get_if<at::Tensor>(&block.value.leaves()[leaf]);
    if (tensor == nullptr || tensor->nbytes() == 0) continue;
    parts.push_back({leaf, bytes_a_row(*tensor), static_cast<std::int64_t>(tensor->element_size())});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.item > b.item; });
  for (std::size_t i = 1; i < parts.size(); ++i) parts[i].offset = parts[i - 1].offset + parts[i - 1].bytes;
  return parts;
}

/// Copies `rows` rows of one leaf.
void copy_leaf(std::int64_t rows, const char* from, std::int64_t bytes, char* to, std::int64_t stride) {
  with_known_size(bytes, [&](auto size) {
    for (std::int64_t row = 0; row < rows; ++row)
      std::memcpy(to + row * stride, from + row * size, static_cast<std::size_t>(size));
  });
}

}  // namespace

RowBlock with_rows_together(RowBlock block) {
  const std::vector<Part> parts = parts_of(block);
  if (parts.size() < kFewestLeaves) return block;
  const std::int64_t largest = parts.front().item;
  const std::int64_t stride = (parts.back().offset + parts.back().bytes + largest - 1) / largest * largest;
  if (stride > kMostBytes) return block;
  // From the pool: a block that goes leaves its memory, whose pages are there, to one that comes.
  const at::Tensor all = pooled_tensor(std::array{block.rows, stride}, at::kByte, *host_pool());
  auto* const memory = static_cast<char*>(all.mutable_data_ptr());
  for (std::int64_t begin = 0; begin < block.rows; begin += kTile) {
    for (const Part& part : parts)
      copy_leaf(std::min(kTile, block.rows - begin), block.dense[part.leaf].data + begin * part.bytes,
                part.bytes, memory + begin * stride + part.offset, stride);
  }
  std::vector<Leaf> leaves = block.value.leaves();
  for (const Part& part : parts) {
    const auto& leaf = std::get<at::Tensor>(leaves[part.leaf]);
    leaves[part.leaf] = all.narrow(1, part.offset, part.bytes).view(leaf.scalar_type()).view(leaf.sizes());
  }
  RowBlock together(Element(block.value.structure(), std::move(leaves)), block.rows);
  together.together = {memory, stride};
  return together;
}

}  // namespace torch_distinput
