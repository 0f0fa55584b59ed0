// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/named_leaf.h"

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include <c10/util/Exception.h>

#include "torch_distinput/element.h"

namespace torch_distinput {
namespace {

/// The tensors that the leaves of `structure` were made from, to find a leaf by its key.
Element numbered(const StructurePtr& structure) {
  std::vector<Leaf> leaves;
  for (std::int64_t i = 0; i < structure->leaf_count(); ++i) {
    Opaque number;
    number.objects.push_back(std::make_shared<std::size_t>(static_cast<std::size_t>(i)));
    leaves.emplace_back(std::move(number));
  }
  return {structure, std::move(leaves)};
}

std::size_t leaf_with_key(const StructurePtr& structure, const std::string& key, std::string_view op) {
  std::optional<Element> part;
  try {
    part = numbered(structure)[key];
  } catch (const c10::Error&) {
  }
  TORCH_CHECK_VALUE(part && part->leaves().size() == 1, op, ": `key` must name one leaf of the elements, ",
                    structure->str(), ", but is '", key, "'.");
  return *static_cast<const std::size_t*>(std::get<Opaque>(part->leaves().front()).objects.front().get());
}

}  // namespace

std::size_t named_leaf(const StructurePtr& structure, const std::optional<std::string>& key,
                       std::string_view op) {
  if (key) return leaf_with_key(structure, *key, op);
  TORCH_CHECK_VALUE(structure->leaf_count() == 1, op, ": elements have ", structure->leaf_count(),
                    " leaves, ", structure->str(), "; name the one with the tokens by `key`.");
  return 0;
}

}  // namespace torch_distinput
