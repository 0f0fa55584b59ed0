// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/shared_spec.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

namespace torch_distinput {
namespace {

using Kind = Structure::Kind;

bool means_something_elsewhere(const Structure& structure) {
  const auto& children = structure.children();
  return structure.kind() != Kind::kNamedTuple &&
         std::all_of(children.begin(), children.end(),
                     [](const StructurePtr& child) { return means_something_elsewhere(*child); });
}

bool means_something_elsewhere(const ElementSpec& spec) {
  const auto nested = [](const LeafSpec& leaf) { return std::holds_alternative<DatasetSpec>(leaf); };
  return means_something_elsewhere(*spec.structure) &&
         std::none_of(spec.leaves.begin(), spec.leaves.end(), nested);
}

/// Writes numbers, and strings after their length, separated by spaces.
class Writer {
 public:
  void number(std::int64_t value) { text_ << value << ' '; }
  void string(const std::string& value) { text_ << value.size() << ' ' << value; }
  void dims(const Dims& dims) {
    number(std::ssize(dims));
    for (const std::int64_t dim : dims) number(dim);
  }
  void shape(const std::optional<Dims>& shape) {
    number(shape ? 1 : 0);
    if (shape) dims(*shape);
  }
  void structure(const Structure& structure) {
    number(static_cast<std::int64_t>(structure.kind()));
    number(std::ssize(structure.children()));
    for (const auto& key : structure.keys()) string(key);
    for (const auto& child : structure.children()) this->structure(*child);
  }
  void leaf(const LeafSpec& leaf) {
    number(static_cast<std::int64_t>(leaf.index()));
    std::visit([this](const auto& spec) { fields(spec); }, leaf);
  }
  std::string take() { return std::move(text_).str(); }

 private:
  template <class Spec>
  void fields(const Spec& spec) {
    if constexpr (requires { spec.shape; }) shape(spec.shape);
    if constexpr (requires { spec.dtype; }) number(static_cast<std::int64_t>(spec.dtype));
    if constexpr (requires { spec.expected; }) dims(spec.expected);
    if constexpr (requires { spec.ragged_rank; }) number(spec.ragged_rank);
    if constexpr (requires { spec.encoding; }) string(spec.encoding.value_or(""));
  }

  std::ostringstream text_;
};

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  std::int64_t number() {
    std::int64_t value = 0;
    text_ >> value;
    return value;
  }
  std::string string() {
    std::string value(static_cast<std::size_t>(number()), '\0');
    text_.ignore(1);
    text_.read(value.data(), std::ssize(value));
    return value;
  }
  Dims dims() {
    Dims dims(static_cast<std::size_t>(number()));
    for (auto& dim : dims) dim = number();
    return dims;
  }
  std::optional<Dims> shape() { return number() == 0 ? std::nullopt : std::optional<Dims>(dims()); }
  StructurePtr structure() {
    const auto kind = static_cast<Kind>(number());
    if (kind == Kind::kLeaf || kind == Kind::kNone) {
      number();
      return kind == Kind::kLeaf ? Structure::leaf() : Structure::none();
    }
    std::vector<StructurePtr> children(static_cast<std::size_t>(number()));
    std::vector<std::string> keys(kind == Kind::kDict ? children.size() : 0);
    for (auto& key : keys) key = string();
    for (auto& child : children) child = structure();
    if (kind == Kind::kDict) return Structure::dict(std::move(keys), std::move(children));
    return kind == Kind::kList ? Structure::list(std::move(children)) : Structure::tuple(std::move(children));
  }
  LeafSpec leaf() { return leaf_of_kind<0>(static_cast<std::size_t>(number())); }

 private:
  template <std::size_t Index>
  LeafSpec leaf_of_kind(std::size_t index) {
    if constexpr (Index + 1 < std::variant_size_v<LeafSpec>) {
      if (index > Index) return leaf_of_kind<Index + 1>(index);
    }
    return fields(std::variant_alternative_t<Index, LeafSpec>{});
  }

  template <class Spec>
  Spec fields(Spec spec) {
    if constexpr (requires { spec.shape; }) spec.shape = shape();
    if constexpr (requires { spec.dtype; }) spec.dtype = static_cast<c10::ScalarType>(number());
    if constexpr (requires { spec.expected; }) spec.expected = dims();
    if constexpr (requires { spec.ragged_rank; }) spec.ragged_rank = number();
    if constexpr (requires { spec.encoding; }) {
      std::string encoding = string();
      if (!encoding.empty()) spec.encoding = std::move(encoding);
    }
    return spec;
  }

  std::istringstream text_;
};

bool lacks_dims(const TensorSpec& spec) {
  const bool known = spec.shape && std::none_of(spec.shape->begin(), spec.shape->end(),
                                                [](std::int64_t dim) { return dim == kUnknownDim; });
  return spec.expected.empty() && !known;
}

/// The dims that the lowest rank saw for leaf `index` and that fit `spec`; empty if no rank saw any.
Dims find_dims(const TensorSpec& spec, std::size_t index, const std::vector<SpecPtr>& of_ranks) {
  for (const SpecPtr& other : of_ranks) {
    if (!other || index >= other->leaves.size()) continue;
    const auto* const seen = std::get_if<TensorSpec>(&other->leaves[index]);
    if (seen == nullptr || seen->expected.empty()) continue;
    if (!spec.shape || spec.shape->size() == seen->expected.size()) return seen->expected;
  }
  return {};
}

}  // namespace

std::string encode_spec(const SpecPtr& spec) {
  if (!spec || !means_something_elsewhere(*spec)) return {};
  Writer writer;
  writer.structure(*spec->structure);
  for (const LeafSpec& leaf : spec->leaves) writer.leaf(leaf);
  return writer.take();
}

SpecPtr decode_spec(const std::string& text) {
  if (text.empty()) return nullptr;
  Reader reader(text);
  auto spec = std::make_shared<ElementSpec>();
  spec->structure = reader.structure();
  for (std::int64_t i = 0; i < spec->structure->leaf_count(); ++i) spec->leaves.push_back(reader.leaf());
  return spec;
}

SpecPtr complete_spec(const SpecPtr& own, const std::vector<SpecPtr>& of_ranks) {
  if (!own) {
    const auto known =
        std::find_if(of_ranks.begin(), of_ranks.end(), [](const SpecPtr& spec) { return spec != nullptr; });
    return known == of_ranks.end() ? nullptr : *known;
  }
  auto completed = std::make_shared<ElementSpec>(*own);
  for (std::size_t i = 0; i < completed->leaves.size(); ++i) {
    auto* const dense = std::get_if<TensorSpec>(&completed->leaves[i]);
    if (dense != nullptr && lacks_dims(*dense)) dense->expected = find_dims(*dense, i, of_ranks);
  }
  return completed;
}

}  // namespace torch_distinput
