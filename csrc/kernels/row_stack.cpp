// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/row_stack.h"

#include <iterator>
#include <utility>
#include <variant>

#include <c10/util/Exception.h>

#include "kernels/dense.h"
#include "kernels/leaf_rows.h"

namespace torch_distinput {
namespace {

/// The tensor of a leaf that is dense and in host memory; else null.
const at::Tensor* host_tensor(const Leaf& leaf) {
  const auto* const tensor = std::get_if<at::Tensor>(&leaf);
  return tensor != nullptr && tensor->layout() == at::kStrided && tensor->is_cpu() ? tensor : nullptr;
}

bool has_layout(const Leaf& leaf, const LeafLayout& layout) {
  const at::Tensor* const tensor = host_tensor(leaf);
  return tensor != nullptr && tensor->scalar_type() == layout.dtype &&
         tensor->sizes() == at::IntArrayRef(layout.shape);
}

}  // namespace

void RowStack::add(Element row) {
  if (structure_ == nullptr) begin(row);
  if (held_.empty() && batch_ && is_like_first(row)) return copy(std::move(row));
  // A row unlike the first: `finish` says which, or joins the rows of a kind that cannot be copied here.
  for (auto held = std::ssize(held_); held < copied_; ++held) held_.push_back(row_again(held));
  held_.push_back(std::move(row));
}

void RowStack::begin(const Element& first) {
  structure_ = first.structure();
  for (std::size_t leaf = 0; leaf < first.leaves().size(); ++leaf) {
    const at::Tensor* const tensor = host_tensor(first.leaves()[leaf]);
    if (tensor == nullptr) continue;
    dense_.push_back(leaf);
    layout_.leaves.push_back({tensor->scalar_type(), Dims(tensor->sizes().begin(), tensor->sizes().end()),
                              static_cast<std::int64_t>(tensor->nbytes())});
  }
  if (dense_.empty()) return;
  const bool all = dense_.size() == first.leaves().size();
  layout_.structure =
      all ? structure_ : Structure::tuple(std::vector<StructurePtr>(dense_.size(), Structure::leaf()));
  batch_ = make_batch(layout_, rows_, pool_);
}

bool RowStack::is_like_first(const Element& row) const {
  if (row.structure() != structure_) return false;
  for (std::size_t i = 0; i < dense_.size(); ++i) {
    if (!has_layout(row.leaves()[dense_[i]], layout_.leaves[i])) return false;
  }
  return true;
}

void RowStack::copy(Element row) {
  for (std::size_t i = 0; i < dense_.size(); ++i) {
    Leaf& leaf = row.leaves()[dense_[i]];
    const RowSink& sink = batch_->sinks[i];
    copy_items(std::get<at::Tensor>(leaf), sink.data + copied_ * sink.row_bytes);
    leaf = at::Tensor();
  }
  ++copied_;
  if (dense_.size() < row.leaves().size()) rest_.push_back(std::move(row));
}

/// A row that was copied, as it was added.
Element RowStack::row_again(std::int64_t row) {
  Element copied = take_row(batch_->element, row, op_);
  if (rest_.empty()) return copied;
  Element whole = std::move(rest_[static_cast<std::size_t>(row)]);
  for (std::size_t i = 0; i < dense_.size(); ++i) whole.leaves()[dense_[i]] = std::move(copied.leaves()[i]);
  return whole;
}

Element RowStack::finish() {
  if (!held_.empty()) return stack_rows(held_, pool_, op_);
  TORCH_INTERNAL_ASSERT(copied_ == rows_, copied_, " rows of ", rows_);
  if (rest_.empty()) return std::move(batch_->element);
  std::vector<Leaf> leaves;
  leaves.reserve(rest_.front().leaves().size());
  for (std::size_t leaf = 0, dense = 0; leaf < rest_.front().leaves().size(); ++leaf) {
    if (dense < dense_.size() && dense_[dense] == leaf)
      leaves.push_back(std::move(batch_->element.leaves()[dense++]));
    else
      leaves.push_back(join_leaf({rest_, leaf, op_, /*stacking=*/true}, pool_));
  }
  return {structure_, std::move(leaves)};
}

}  // namespace torch_distinput
