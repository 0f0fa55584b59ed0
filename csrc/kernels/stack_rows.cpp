// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include "kernels/dense.h"
#include "kernels/rows.h"

namespace torch_distinput {
namespace {

void check_row(const at::Tensor& row, const at::Tensor& first, const Structure& structure, std::size_t leaf,
               std::size_t index, std::string_view op) {
  TORCH_CHECK_VALUE(row.scalar_type() == first.scalar_type(), op, ": ", leaf_name(structure, leaf),
                    " must have one dtype, but is torch.", dtype_name(first.scalar_type()),
                    " in element 0 of the batch and torch.", dtype_name(row.scalar_type()), " in element ",
                    index, ".");
  TORCH_CHECK_VALUE(row.sizes() == first.sizes(), op, ": ", leaf_name(structure, leaf),
                    " must have one shape, but is ", dims_string(first.sizes().vec()),
                    " in element 0 of the batch and ", dims_string(row.sizes().vec()), " in element ", index,
                    "; use padded_batch, or map to one shape.");
}

at::Tensor stack_leaf(std::span<const Element> elements, std::size_t leaf, BufferPool& pool,
                      std::string_view op) {
  const at::Tensor& first = dense_leaf(elements.front(), leaf, op, "stack");
  Dims shape{static_cast<std::int64_t>(elements.size())};
  shape.insert(shape.end(), first.sizes().begin(), first.sizes().end());
  at::Tensor stacked = pooled_tensor(shape, first.scalar_type(), pool);
  char* to = static_cast<char*>(stacked.mutable_data_ptr());
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const at::Tensor& row = dense_leaf(elements[i], leaf, op, "stack");
    check_row(row, first, *elements.front().structure(), leaf, i, op);
    copy_items(row, to);
    to += row.nbytes();
  }
  return stacked;
}

}  // namespace

void check_structures(std::span<const Element> elements, std::string_view op) {
  const auto& structure = elements.front().structure();
  for (std::size_t i = 1; i < elements.size(); ++i) {
    TORCH_CHECK_VALUE(elements[i].structure() == structure, op,
                      ": elements must have one structure, but element 0 of the batch is ", structure->str(),
                      " and element ", i, " is ", elements[i].structure()->str(), ".");
  }
}

Element stack_rows(std::span<const Element> elements, BufferPool& pool, std::string_view op) {
  TORCH_INTERNAL_ASSERT(!elements.empty(), "stack_rows without elements");
  check_structures(elements, op);
  const std::size_t count = elements.front().leaves().size();
  std::vector<Leaf> leaves;
  leaves.reserve(count);
  for (std::size_t leaf = 0; leaf < count; ++leaf) leaves.emplace_back(stack_leaf(elements, leaf, pool, op));
  return {elements.front().structure(), std::move(leaves)};
}

Element copy_element(const Element& element, BufferPool& pool) {
  Element copy = element;
  for (Leaf& leaf : copy.leaves()) {
    auto* dense = std::get_if<at::Tensor>(&leaf);
    if (dense == nullptr || !dense->device().is_cpu() || dense->layout() != at::kStrided) continue;
    at::Tensor fresh =
        pooled_tensor({dense->sizes().data(), dense->sizes().size()}, dense->scalar_type(), pool);
    copy_items(*dense, static_cast<char*>(fresh.mutable_data_ptr()));
    *dense = std::move(fresh);
  }
  return copy;
}

}  // namespace torch_distinput
