// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/shared_spec.h"

#include <algorithm>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "comm/tensor_text.h"

namespace torch_distinput {
namespace {

using Kind = Structure::Kind;

bool means_something_elsewhere(const Structure& structure) {
  const auto& children = structure.children();
  return structure.kind() != Kind::kNamedTuple &&
         std::all_of(children.begin(), children.end(),
                     [](const StructurePtr& child) { return means_something_elsewhere(*child); });
}

/// Far deeper than structures of real data, and within a small part of a thread's stack.
constexpr int kMaxNesting = 100;
/// Limit on one dim, and on the bytes of a leaf, counting dims that are 0 or unknown as 1.
constexpr std::int64_t kMaxLeafBytes = std::int64_t{1} << 48;
constexpr std::size_t kMaxDims = 64;
/// The bytes of the widest dtype.
constexpr std::int64_t kMaxItem = 16;

int nesting(const Structure& structure) {
  int deepest = 0;
  for (const auto& child : structure.children()) deepest = std::max(deepest, 1 + nesting(*child));
  return deepest;
}

bool can_be_sent(const LeafSpec& leaf) {
  return std::visit(
      [](const auto& spec) {
        if constexpr (requires { spec.dtype; }) return is_plain(spec.dtype);
        return !std::is_same_v<std::decay_t<decltype(spec)>, DatasetSpec>;
      },
      leaf);
}

bool means_something_elsewhere(const ElementSpec& spec) {
  return means_something_elsewhere(*spec.structure) && nesting(*spec.structure) <= kMaxNesting &&
         std::all_of(spec.leaves.begin(), spec.leaves.end(), can_be_sent);
}

class Writer {
 public:
  void structure(const Structure& structure) {
    text_.integer(static_cast<int>(structure.kind()));
    text_.integer(structure.children().size());
    for (const auto& key : structure.keys()) text_.string(key);
    for (const auto& child : structure.children()) this->structure(*child);
  }
  void leaf(const LeafSpec& leaf) {
    text_.integer(leaf.index());
    std::visit([this](const auto& spec) { fields(spec); }, leaf);
  }
  std::string take() { return text_.take(); }

 private:
  template <class Spec>
  void fields(const Spec& spec) {
    if constexpr (requires { spec.shape; }) {
      text_.flag(spec.shape.has_value());
      if (spec.shape) encode_dims(text_, *spec.shape);
    }
    if constexpr (requires { spec.dtype; }) text_.integer(static_cast<int>(spec.dtype));
    if constexpr (requires { spec.expected; }) encode_dims(text_, spec.expected);
    if constexpr (requires { spec.ragged_rank; }) text_.integer(spec.ragged_rank);
    if constexpr (requires { spec.encoding; }) text_.flag(spec.encoding.has_value());
  }

  PeerTextWriter text_;
};

class Reader {
 public:
  explicit Reader(PeerTextReader& text) : text_(text) {}

  StructurePtr structure(int depth = 0) {
    constexpr auto kLast = static_cast<std::int64_t>(Kind::kDict);  // named tuples are not sent
    if (depth > kMaxNesting)
      text_.fail("the type", "nested at most " + std::to_string(kMaxNesting) + " deep", "deeper");
    const auto kind = static_cast<Kind>(text_.integer("the kind of a structure", 0, kLast));
    const std::size_t size = text_.count("the number of parts");
    if (kind == Kind::kLeaf || kind == Kind::kNone) {
      if (size > 0) text_.fail("the number of parts of a leaf", "0", std::to_string(size));
      return kind == Kind::kLeaf ? Structure::leaf() : Structure::none();
    }
    std::vector<std::string> keys = kind == Kind::kDict ? this->keys(size) : std::vector<std::string>();
    std::vector<StructurePtr> children;
    while (children.size() < size) children.push_back(structure(depth + 1));
    if (kind == Kind::kDict) return Structure::dict(std::move(keys), std::move(children));
    return kind == Kind::kList ? Structure::list(std::move(children)) : Structure::tuple(std::move(children));
  }
  LeafSpec leaf() {
    constexpr std::size_t kKinds = std::variant_size_v<LeafSpec> - 1;  // nested datasets are not sent
    static_assert(std::is_same_v<std::variant_alternative_t<kKinds, LeafSpec>, DatasetSpec>);
    return leaf_of_kind<0>(static_cast<std::size_t>(text_.integer("the kind of a leaf", 0, kKinds - 1)));
  }

 private:
  std::vector<std::string> keys(std::size_t size) {
    std::vector<std::string> keys;
    while (keys.size() < size) keys.emplace_back(text_.string("a key"));
    if (std::set(keys.begin(), keys.end()).size() != size) text_.fail("a key", "there once", "there twice");
    return keys;
  }

  template <std::size_t Index>
  LeafSpec leaf_of_kind(std::size_t index) {
    if constexpr (Index + 1 < std::variant_size_v<LeafSpec>) {
      if (index > Index) return leaf_of_kind<Index + 1>(index);
    }
    return fields(std::variant_alternative_t<Index, LeafSpec>{});
  }

  template <class Spec>
  Spec fields(Spec spec) {
    if constexpr (requires { spec.shape; })
      spec.shape = text_.flag("whether dims are known") ? std::optional(decode_dims(text_)) : std::nullopt;
    if constexpr (requires { spec.dtype; }) spec.dtype = read_dtype(text_);
    if constexpr (requires { spec.expected; }) spec.expected = decode_dims(text_);
    if constexpr (requires { spec.ragged_rank; })
      spec.ragged_rank = text_.integer("the number of ragged dims", 1, 1);
    if constexpr (requires { spec.encoding; }) {
      if (text_.flag("whether strings are text")) spec.encoding = "utf-8";
    }
    return spec;
  }

  PeerTextReader& text_;
};

}  // namespace

std::string encode_spec(const SpecPtr& spec) {
  if (!spec || !means_something_elsewhere(*spec)) return {};
  Writer writer;
  writer.structure(*spec->structure);
  for (const LeafSpec& leaf : spec->leaves) writer.leaf(leaf);
  return writer.take();
}

SpecPtr decode_spec(PeerTextReader text) {
  if (text.ended()) return nullptr;
  Reader reader(text);
  auto spec = std::make_shared<ElementSpec>();
  spec->structure = reader.structure();
  for (std::int64_t i = 0; i < spec->structure->leaf_count(); ++i) spec->leaves.push_back(reader.leaf());
  text.end();
  return spec;
}

void encode_dims(PeerTextWriter& text, const Dims& dims) {
  text.integer(dims.size());
  for (const std::int64_t dim : dims) text.integer(dim);
}

Dims decode_dims(PeerTextReader& text) {
  const std::size_t count = text.count("the number of dims");
  if (count > kMaxDims)
    text.fail("the number of dims", "at most " + std::to_string(kMaxDims), std::to_string(count));
  Dims dims;
  std::int64_t bytes = kMaxItem;
  while (dims.size() < count) {
    dims.push_back(text.integer("a dim", kUnknownDim, kMaxLeafBytes));
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(dims.back(), 1), &bytes) ||
        bytes > kMaxLeafBytes)
      text.fail("the size of a leaf", "at most 2**48 bytes", "larger");
  }
  return dims;
}

}  // namespace torch_distinput
