// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/element.h"

#include <algorithm>

#include <c10/util/Exception.h>

namespace torch_distinput {
namespace {

std::int64_t size_of(const at::Tensor& tensor) { return static_cast<std::int64_t>(tensor.nbytes()); }

/// Bytes of `values` that lie between the first and the last offset.
std::int64_t bytes_between(const at::Tensor& offsets, const at::Tensor& values) {
  const auto* const bounds = static_cast<const std::int64_t*>(offsets.const_data_ptr());
  const std::int64_t items = bounds[offsets.size(0) - 1] - bounds[0];
  return values.size(0) == 0 ? 0 : items * (size_of(values) / values.size(0));
}

struct LeafBytes {
  std::int64_t operator()(const at::Tensor& dense) const { return size_of(dense); }
  std::int64_t operator()(const Bytes& strings) const {
    return strings.offsets.defined() ? bytes_between(strings.offsets, strings.values)
                                     : size_of(strings.values);
  }
  std::int64_t operator()(const Ragged& ragged) const {
    return ragged.offsets.is_cpu() ? bytes_between(ragged.offsets, ragged.values) : size_of(ragged.values);
  }
  std::int64_t operator()(const Sparse& sparse) const {
    return size_of(sparse.value._values()) + size_of(sparse.value._indices());
  }
  std::int64_t operator()(const Opaque&) const { return 0; }
  std::int64_t operator()(const NodePtr&) const { return 0; }
};

std::optional<std::int64_t> front(at::IntArrayRef dims) {
  return dims.empty() ? std::nullopt : std::optional(dims.front());
}

/// Rows of one leaf; nullopt for a leaf without a dim 0.
struct LeafRows {
  std::optional<std::int64_t> operator()(const at::Tensor& dense) const { return front(dense.sizes()); }
  std::optional<std::int64_t> operator()(const Bytes& strings) const { return front(strings.shape); }
  std::optional<std::int64_t> operator()(const Ragged& ragged) const { return ragged.offsets.size(0) - 1; }
  std::optional<std::int64_t> operator()(const Sparse& sparse) const {
    return sparse.value.sparse_dim() == 0 ? std::nullopt : front(sparse.value.sizes());
  }
  std::optional<std::int64_t> operator()(const Opaque& objects) const { return front(objects.shape); }
  std::optional<std::int64_t> operator()(const NodePtr&) const { return std::nullopt; }
};

/// What an element takes from its parts.
struct Taken {
  explicit Taken(std::size_t parts) {
    leaves.reserve(parts);
    structures.reserve(parts);
  }

  void add(Element&& part) {
    structures.push_back(part.structure());
    std::move(part.leaves().begin(), part.leaves().end(), std::back_inserter(leaves));
  }

  std::vector<Leaf> leaves;
  std::vector<StructurePtr> structures;
};

Taken take(std::vector<Element> parts) {
  Taken taken(parts.size());
  for (Element& part : parts) taken.add(std::move(part));
  return taken;
}

}  // namespace

std::string_view leaf_kind(const Leaf& leaf) {
  constexpr std::string_view kKinds[] = {"dense", "bytes", "ragged", "sparse", "opaque", "dataset"};
  return kKinds[leaf.index()];
}

Element::Element() : structure_(Structure::none()) {}

Element::Element(at::Tensor value) : structure_(Structure::leaf()) { leaves_.emplace_back(std::move(value)); }

Element::Element(StructurePtr structure, std::vector<Leaf> leaves)
    : structure_(std::move(structure)), leaves_(std::move(leaves)) {}

Element Element::tuple(std::vector<Element> parts) {
  Taken taken = take(std::move(parts));
  return {Structure::tuple(std::move(taken.structures)), std::move(taken.leaves)};
}

Element Element::list(std::vector<Element> parts) {
  Taken taken = take(std::move(parts));
  return {Structure::list(std::move(taken.structures)), std::move(taken.leaves)};
}

Element Element::dict(std::vector<std::pair<std::string, Element>> parts) {
  Taken taken(parts.size());
  std::vector<std::string> keys;
  keys.reserve(parts.size());
  for (auto& [key, part] : parts) {
    keys.push_back(std::move(key));
    taken.add(std::move(part));
  }
  return {Structure::dict(std::move(keys), std::move(taken.structures)), std::move(taken.leaves)};
}

at::Tensor Element::tensor() const {
  TORCH_CHECK_TYPE(structure_->kind() == Structure::Kind::kLeaf,
                   "Element::tensor: the element is not one tensor but ", structure_->str(), ".");
  return tensor(0);
}

at::Tensor Element::tensor(std::size_t index) const {
  TORCH_CHECK_INDEX(index < leaves_.size(), "Element::tensor: `index` must be below ", leaves_.size(),
                    ", but is ", index, ".");
  const auto* dense = std::get_if<at::Tensor>(&leaves_[index]);
  TORCH_CHECK_TYPE(dense != nullptr, "Element::tensor: leaf ",
                   structure_->leaf_path(static_cast<std::int64_t>(index)), " is a ",
                   leaf_kind(leaves_[index]), " leaf, not a dense one.");
  return *dense;
}

Element Element::operator[](std::string_view key) const {
  const auto& keys = structure_->keys();
  const auto found = std::find(keys.begin(), keys.end(), key);
  TORCH_CHECK_INDEX(found != keys.end(), "Element: no part '", key, "' in ", structure_->str(), ".");
  return (*this)[static_cast<std::size_t>(found - keys.begin())];
}

Element Element::operator[](std::size_t index) const {
  const auto& children = structure_->children();
  TORCH_CHECK_INDEX(index < children.size(), "Element: no part ", index, " in ", structure_->str(), ".");
  std::int64_t first = 0;
  for (std::size_t i = 0; i < index; ++i) first += children[i]->leaf_count();
  const auto begin = leaves_.begin() + first;
  return {children[index], std::vector<Leaf>(begin, begin + children[index]->leaf_count())};
}

std::optional<std::int64_t> Element::rows() const {
  std::optional<std::int64_t> rows;
  for (const auto& leaf : leaves_) {
    const auto here = std::visit(LeafRows{}, leaf);
    if (!here || (rows && *rows != *here)) return std::nullopt;
    rows = here;
  }
  return rows;
}

std::int64_t Element::bytes() const {
  std::int64_t total = 0;
  for (const auto& leaf : leaves_) total += std::visit(LeafBytes{}, leaf);
  return total;
}

}  // namespace torch_distinput
