// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/row_stack.h"

#include <c10/util/Exception.h>

#include <iterator>
#include <utility>
#include <variant>

#include "kernels/dense.h"

namespace torch_distinput {
namespace {

/// The tensor of a leaf that is dense and in host memory; else null.
const at::Tensor* host_tensor(const Leaf& leaf) {
  const auto* const tensor = std::get_if<at::Tensor>(&leaf);
  return tensor != nullptr && tensor->layout() == at::kStrided && tensor->is_cpu() ? tensor : nullptr;
}

/// The layout of `row`; nullopt where a leaf is not dense or not in host memory.
std::optional<RowLayout> layout_of(const Element& row) {
  RowLayout layout{row.structure(), {}};
  for (const Leaf& leaf : row.leaves()) {
    const at::Tensor* const tensor = host_tensor(leaf);
    if (tensor == nullptr) return std::nullopt;
    layout.leaves.push_back({tensor->scalar_type(), Dims(tensor->sizes().begin(), tensor->sizes().end()),
                             static_cast<std::int64_t>(tensor->nbytes())});
  }
  return layout;
}

bool has_layout(const Element& row, const RowLayout& layout) {
  if (row.structure() != layout.structure) return false;
  for (std::size_t leaf = 0; leaf < layout.leaves.size(); ++leaf) {
    const at::Tensor* const tensor = host_tensor(row.leaves()[leaf]);
    if (tensor == nullptr || tensor->scalar_type() != layout.leaves[leaf].dtype ||
        tensor->sizes() != at::IntArrayRef(layout.leaves[leaf].shape))
      return false;
  }
  return true;
}

}  // namespace

void RowStack::add(Element row) {
  if (held_.empty() && copy(row)) return;
  // A row unlike the first: `finish` says which, or joins the rows of a kind that cannot be copied here.
  for (auto held = std::ssize(held_); held < copied_; ++held)
    held_.push_back(take_row(batch_->element, held, op_));
  held_.push_back(std::move(row));
}

bool RowStack::copy(const Element& row) {
  if (!batch_) {
    std::optional<RowLayout> layout = layout_of(row);
    if (!layout) return false;
    layout_ = std::move(*layout);
    batch_ = make_batch(layout_, rows_, pool_);
  }
  if (!has_layout(row, layout_)) return false;
  for (std::size_t leaf = 0; leaf < batch_->sinks.size(); ++leaf) {
    const RowSink& sink = batch_->sinks[leaf];
    copy_items(std::get<at::Tensor>(row.leaves()[leaf]), sink.data + copied_ * sink.row_bytes);
  }
  ++copied_;
  return true;
}

Element RowStack::finish() {
  if (!held_.empty()) return stack_rows(held_, pool_, op_);
  TORCH_INTERNAL_ASSERT(copied_ == rows_, copied_, " rows of ", rows_);
  return std::move(batch_->element);
}

}  // namespace torch_distinput
