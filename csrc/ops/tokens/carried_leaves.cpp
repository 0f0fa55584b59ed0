// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/tokens/carried_leaves.h"

#include <limits>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "execution/named_leaf.h"
#include "kernels/dense.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

Dims inner_dims(const at::Tensor& leaf) { return leaf.sizes().slice(1).vec(); }

at::Tensor joined(const std::vector<at::Tensor>& parts, BufferPool& pool) {
  Dims shape = parts.front().sizes().vec();
  shape.front() = 0;
  for (const at::Tensor& part : parts) shape.front() += part.size(0);
  at::Tensor whole = pooled_tensor(shape, parts.front().scalar_type(), pool);
  auto* to = static_cast<char*>(whole.mutable_data_ptr());
  for (const at::Tensor& part : parts) {
    copy_items(part, to);
    to += part.nbytes();
  }
  return whole;
}

at::Tensor bounds_of(const std::vector<at::Tensor>& parts, std::int64_t count, const std::string& key,
                     BufferPool& pool) {
  at::Tensor bounds = pooled_tensor({&count, 1}, c10::kInt, pool);
  auto* const to = static_cast<std::int32_t*>(bounds.mutable_data_ptr());
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<std::int32_t>(rows);
    if (i < std::ssize(parts)) rows += parts[static_cast<std::size_t>(i)].size(0);
    TORCH_CHECK_VALUE(rows <= std::numeric_limits<std::int32_t>::max(), kPackName, ": `", key,
                      "` of a row has ", rows, " rows along dim 0, more than int32 bounds can count.");
  }
  return bounds;
}

}  // namespace

void CarriedLeaves::add(const Element& document, std::int64_t number) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::string& key = packing_->options.keys[i];
    const std::size_t leaf = named_leaf(document.structure(), key, kPackName);
    const at::Tensor& rows = dense_leaf(document, leaf, kPackName, "join");
    TORCH_CHECK_VALUE(rows.dim() > 0, kPackName, ": `", key, "` of document ", number,
                      " is a scalar, but must have rows along dim 0 to travel with its document.");
    const at::Tensor& first = parts_[i].empty() ? rows : parts_[i].front();
    TORCH_CHECK_VALUE(rows.scalar_type() == first.scalar_type() && inner_dims(rows) == inner_dims(first),
                      kPackName, ": `", key,
                      "` must be alike in all documents but for dim 0, but of document ", number, " it is ",
                      to_string(spec_of(Element(rows))), " after ", to_string(spec_of(Element(first))), ".");
    parts_[i].push_back(rows);
  }
}

std::vector<Leaf> CarriedLeaves::join(BufferPool& pool) const {
  std::vector<Leaf> leaves;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    leaves.emplace_back(joined(parts_[i], pool));
    leaves.emplace_back(bounds_of(parts_[i], packing_->bounds(), packing_->options.keys[i], pool));
  }
  return leaves;
}

void CarriedLeaves::append_spec(const PackArguments& packing, const ElementSpec& documents,
                                ElementSpec& spec) {
  for (const std::string& key : packing.options.keys) {
    const std::size_t leaf = named_leaf(documents.structure, key, kPackName);
    const auto* const dense = std::get_if<TensorSpec>(&documents.leaves[leaf]);
    const bool has_rows = dense != nullptr && (!dense->shape || !dense->shape->empty());
    TORCH_CHECK_TYPE(has_rows, kPackName, ": `", key,
                     "` must be dense with rows along dim 0 to travel with its ", "document, but is ",
                     to_string(documents.leaves[leaf]), ".");
    TensorSpec joined{dense->shape, dense->dtype, {}};
    if (joined.shape) joined.shape->front() = kUnknownDim;
    spec.leaves.emplace_back(std::move(joined));
    spec.leaves.emplace_back(TensorSpec{Dims{packing.bounds()}, c10::kInt, {}});
  }
}

void check_not_cut(const PackArguments& packing, std::int64_t tokens, std::int64_t number) {
  TORCH_CHECK_VALUE(packing.options.keys.empty() || tokens <= packing.length, kPackName, ": document ",
                    number, " has ", tokens, " tokens, but a row has ", packing.length,
                    ", and a document cannot be cut while `", packing.options.keys.front(),
                    "` travels with it. Shorten it or leave it out before.");
}

}  // namespace torch_distinput
