// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/rows.h"

#include <c10/util/Exception.h>

#include "kernels/dense.h"
#include "kernels/leaf_rows.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

Element join_elements(std::span<const Element> elements, const std::vector<bool>& ragged, BufferPool& pool,
                      std::string_view op, bool stacking) {
  TORCH_INTERNAL_ASSERT(!elements.empty(), "no elements to join");
  check_structures(elements, op);
  std::vector<Leaf> leaves;
  leaves.reserve(elements.front().leaves().size());
  for (std::size_t leaf = 0; leaf < elements.front().leaves().size(); ++leaf) {
    const LeafPlace place{elements, leaf, op, stacking};
    if (!ragged.empty() && ragged[leaf]) {
      place.require_one_kind();
      leaves.emplace_back(join_ragged(LeafRun<at::Tensor>{place}, pool));
    } else {
      leaves.push_back(join_leaf(place, pool));
    }
  }
  return {elements.front().structure(), std::move(leaves)};
}

struct HasRows {
  bool operator()(const at::Tensor& leaf) const { return leaf.dim() > 0; }
  bool operator()(const Bytes& leaf) const { return !leaf.shape.empty(); }
  bool operator()(const Ragged&) const { return true; }
  bool operator()(const Sparse& leaf) const { return leaf.value.sparse_dim() > 0; }
  bool operator()(const Opaque& leaf) const { return !leaf.shape.empty(); }
  bool operator()(const NodePtr&) const { return false; }
};

/// Returns leaf `leaf`, which must have rows that `op` can slice. Throws c10::TypeError or c10::ValueError.
const Leaf& leaf_with_rows(const Element& element, std::size_t leaf, std::string_view op) {
  const Leaf& value = element.leaves()[leaf];
  if (std::holds_alternative<at::Tensor>(value) || std::holds_alternative<NodePtr>(value))
    dense_leaf(element, leaf, op, "cut");
  TORCH_CHECK_VALUE(std::visit(HasRows{}, value), op, ": ", leaf_name(*element.structure(), leaf),
                    " is a scalar, but must have rows along dim 0; call batch first.");
  return value;
}

/// Returns the element with `change` applied to each leaf. `leaf_with_rows` refuses dataset leaves.
template <class Change>
Element for_each_leaf(const Element& element, std::string_view op, Change change) {
  std::vector<Leaf> leaves;
  leaves.reserve(element.leaves().size());
  for (std::size_t leaf = 0; leaf < element.leaves().size(); ++leaf) {
    leaves.push_back(std::visit(
        [&]<class Kind>(const Kind& value) -> Leaf {
          if constexpr (std::is_same_v<Kind, NodePtr>) {
            return value;
          } else {
            return change(value);
          }
        },
        leaf_with_rows(element, leaf, op)));
  }
  return {element.structure(), std::move(leaves)};
}

}  // namespace

Leaf join_leaf(const LeafPlace& place, BufferPool& pool) {
  place.require_one_kind();
  return std::visit(
      [&]<class Kind>(const Kind&) -> Leaf {
        if constexpr (requires(LeafRun<Kind> run) { join(run, pool); }) {
          return join(LeafRun<Kind>{place}, pool);
        } else {
          return dense_leaf(place.elements.front(), place.leaf, place.op, place.stacking ? "stack" : "join");
        }
      },
      place.elements.front().leaves()[place.leaf]);
}

void check_structures(std::span<const Element> elements, std::string_view op) {
  const auto& structure = elements.front().structure();
  for (std::size_t i = 1; i < elements.size(); ++i) {
    TORCH_CHECK_VALUE(elements[i].structure() == structure, op,
                      ": elements must have one structure, but element 0 is ", structure->str(),
                      " and element ", i, " is ", elements[i].structure()->str(), ".");
  }
}

Element stack_rows(std::span<const Element> elements, BufferPool& pool, std::string_view op) {
  return join_elements(elements, {}, pool, op, /*stacking=*/true);
}

Element stack_ragged_rows(std::span<const Element> elements, const std::vector<bool>& ragged,
                          BufferPool& pool, std::string_view op) {
  return join_elements(elements, ragged, pool, op, /*stacking=*/true);
}

Element concat_rows(std::span<const Element> elements, std::string_view op) {
  TORCH_INTERNAL_ASSERT(!elements.empty(), "concat_rows without elements");
  if (elements.size() == 1) return elements.front();
  for (const Element& element : elements) {
    for (std::size_t leaf = 0; leaf < element.leaves().size(); ++leaf) leaf_with_rows(element, leaf, op);
  }
  return join_elements(elements, {}, *host_pool(), op, /*stacking=*/false);
}

Element slice_rows(const Element& element, std::int64_t begin, std::int64_t end, std::string_view op) {
  return for_each_leaf(element, op, [&](const auto& leaf) { return slice(leaf, begin, end); });
}

Element take_row(const Element& element, std::int64_t row, std::string_view op) {
  return for_each_leaf(element, op, [&](const auto& leaf) { return row_of(leaf, row); });
}

Element copy_element(const Element& element, BufferPool& pool) {
  Element fresh = element;
  for (Leaf& leaf : fresh.leaves()) {
    std::visit(
        [&]<class Kind>(Kind& value) {
          if constexpr (!std::is_same_v<Kind, NodePtr>) value = copy(value, pool);
        },
        leaf);
  }
  return fresh;
}

}  // namespace torch_distinput
