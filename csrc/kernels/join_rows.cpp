// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include "kernels/dense.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

const at::Tensor& leaf_with_rows(const Element& element, std::size_t leaf, std::string_view op,
                                 std::string_view verb) {
  const at::Tensor& tensor = dense_leaf(element, leaf, op, verb);
  TORCH_CHECK_VALUE(tensor.dim() > 0, op, ": ", leaf_name(*element.structure(), leaf),
                    " is a scalar, but must have rows along dim 0; call batch first.");
  return tensor;
}

void check_part(const at::Tensor& part, const at::Tensor& first, const Structure& structure, std::size_t leaf,
                std::string_view op) {
  TORCH_CHECK_VALUE(part.scalar_type() == first.scalar_type(), op, ": ", leaf_name(structure, leaf),
                    " must have one dtype, but is torch.", dtype_name(first.scalar_type()),
                    " and then torch.", dtype_name(part.scalar_type()), ".");
  if (part.sizes().slice(1) == first.sizes().slice(1)) return;
  throw FailedPreconditionError(c10::str(op, ": ", leaf_name(structure, leaf),
                                         " must have one shape beyond dim 0, but is ",
                                         dims_string(first.sizes().vec()), " and then ",
                                         dims_string(part.sizes().vec()), "; map it to one shape."));
}

at::Tensor concat_leaf(std::span<const Element> parts, std::size_t leaf, std::string_view op) {
  const at::Tensor& first = leaf_with_rows(parts.front(), leaf, op, "join");
  Dims shape = first.sizes().vec();
  shape.front() = 0;
  for (const Element& part : parts) {
    const at::Tensor& tensor = leaf_with_rows(part, leaf, op, "join");
    check_part(tensor, first, *parts.front().structure(), leaf, op);
    shape.front() += tensor.size(0);
  }
  at::Tensor joined = pooled_tensor(shape, first.scalar_type(), *host_pool());
  char* to = static_cast<char*>(joined.mutable_data_ptr());
  for (const Element& part : parts) {
    const auto& tensor = std::get<at::Tensor>(part.leaves()[leaf]);
    copy_items(tensor, to);
    to += tensor.nbytes();
  }
  return joined;
}

}  // namespace

Element slice_rows(const Element& element, std::int64_t begin, std::int64_t end, std::string_view op) {
  std::vector<Leaf> leaves;
  leaves.reserve(element.leaves().size());
  for (std::size_t leaf = 0; leaf < element.leaves().size(); ++leaf) {
    leaves.emplace_back(share_rows(leaf_with_rows(element, leaf, op, "cut"), begin, end));
  }
  return {element.structure(), std::move(leaves)};
}

Element take_row(const Element& element, std::int64_t row, std::string_view op) {
  std::vector<Leaf> leaves;
  leaves.reserve(element.leaves().size());
  for (std::size_t leaf = 0; leaf < element.leaves().size(); ++leaf) {
    leaves.emplace_back(share_row(leaf_with_rows(element, leaf, op, "cut"), row));
  }
  return {element.structure(), std::move(leaves)};
}

Element concat_rows(std::span<const Element> elements, std::string_view op) {
  TORCH_INTERNAL_ASSERT(!elements.empty(), "concat_rows without elements");
  if (elements.size() == 1) return elements.front();
  const auto& structure = elements.front().structure();
  for (const Element& element : elements) {
    TORCH_CHECK_VALUE(element.structure() == structure, op, ": elements must have one structure, but are ",
                      structure->str(), " and then ", element.structure()->str(), ".");
  }
  std::vector<Leaf> leaves;
  leaves.reserve(elements.front().leaves().size());
  for (std::size_t leaf = 0; leaf < elements.front().leaves().size(); ++leaf) {
    leaves.emplace_back(concat_leaf(elements, leaf, op));
  }
  return {structure, std::move(leaves)};
}

}  // namespace torch_distinput
