// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/records/leaf_parser.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/names.h"

namespace torch_distinput {
namespace {

std::string key_text(const LeafKey& key) {
  const auto* const index = std::get_if<std::int64_t>(&key);
  return index != nullptr ? std::to_string(*index) : "'" + std::get<std::string>(key) + "'";
}

/// The index of the child named by `key`; nullopt if there is none.
std::optional<std::size_t> child_index(const Structure& structure, const LeafKey& key) {
  if (const auto* const index = std::get_if<std::int64_t>(&key)) {
    const bool counts =
        structure.kind() == Structure::Kind::kTuple || structure.kind() == Structure::Kind::kList;
    const bool exists = *index >= 0 && *index < static_cast<std::int64_t>(structure.children().size());
    if (!counts || !exists) return std::nullopt;
    return static_cast<std::size_t>(*index);
  }
  const auto& keys = structure.keys();
  const auto found = std::find(keys.begin(), keys.end(), std::get<std::string>(key));
  if (found == keys.end()) return std::nullopt;
  return static_cast<std::size_t>(found - keys.begin());
}

std::size_t leaf_of_key(const Structure& structure, const LeafKey& key, const std::string& op) {
  const std::optional<std::size_t> child = child_index(structure, key);
  TORCH_CHECK_VALUE(child, op, ": `key` must name a part of the element, but is ", key_text(key),
                    " and the element is ", structure.str(), ".");
  TORCH_CHECK_VALUE(structure.children()[*child]->kind() == Structure::Kind::kLeaf, op,
                    ": `key` must name a leaf, but ", key_text(key), " is ",
                    structure.children()[*child]->str(), ".");
  std::int64_t leaf = 0;
  for (std::size_t i = 0; i < *child; ++i) leaf += structure.children()[i]->leaf_count();
  return static_cast<std::size_t>(leaf);
}

template <class IsStrings>
std::size_t find_leaf(const Structure& structure, const std::optional<LeafKey>& key, const std::string& op,
                      IsStrings is_strings) {
  const auto leaves = static_cast<std::size_t>(structure.leaf_count());
  if (key) {
    const std::size_t leaf = leaf_of_key(structure, *key, op);
    TORCH_CHECK_TYPE(is_strings(leaf), op, ": ", leaf_name(structure, leaf),
                     " must be strings, but is not; name another leaf with `key`.");
    return leaf;
  }
  std::optional<std::size_t> found;
  for (std::size_t leaf = 0; leaf < leaves; ++leaf) {
    if (!is_strings(leaf)) continue;
    TORCH_CHECK_VALUE(!found, op, ": ", leaf_name(structure, found.value_or(0)), " and ",
                      leaf_name(structure, leaf), " are strings; say with `key` which one is meant.");
    found = leaf;
  }
  TORCH_CHECK_TYPE(found, op, ": no leaf of ", structure.str(), " is strings.");
  return *found;
}

std::size_t find_strings_in(const Element& element, const std::optional<LeafKey>& key,
                            const std::string& op) {
  return find_leaf(*element.structure(), key, op,
                   [&](std::size_t leaf) { return std::holds_alternative<Bytes>(element.leaves()[leaf]); });
}

/// Puts `part` in the place of entry `place` of `leaves`.
template <class AnyLeaf>
void splice(std::vector<AnyLeaf>& leaves, std::size_t place, std::vector<AnyLeaf> part) {
  const auto at = leaves.erase(leaves.begin() + static_cast<std::ptrdiff_t>(place));
  leaves.insert(at, std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
}

/// Applies a LeafParser to one leaf of each element.
class OneLeafParser final : public ElementParser {
 public:
  OneLeafParser(std::string op, std::shared_ptr<const LeafParser> parser, std::optional<LeafKey> key)
      : op_(std::move(op)), parser_(std::move(parser)), key_(std::move(key)) {}

  Element parse(Element element, BufferPool& pool, const RecordName& name) const override {
    const std::size_t leaf = find_strings_in(element, key_, op_);
    Bytes records = std::get<Bytes>(std::move(element.leaves()[leaf]));
    Element part = parser_->parse(std::move(records), pool, name);
    if (element.structure()->kind() == Structure::Kind::kLeaf) return part;
    StructurePtr structure = replace_leaf(element.structure(), leaf, part.structure());
    std::vector<Leaf> leaves = std::move(element.leaves());
    splice(leaves, leaf, std::move(part.leaves()));
    return {std::move(structure), std::move(leaves)};
  }
  bool stacks() const override { return parser_->stacks(); }
  bool row_wise() const override { return parser_->row_wise(); }

 private:
  std::string op_;
  std::shared_ptr<const LeafParser> parser_;
  std::optional<LeafKey> key_;
};

class ParseLeafNode final : public ParseNode {
 public:
  ParseLeafNode(NodePtr input, std::string op, std::shared_ptr<const LeafParser> parser,
                std::optional<LeafKey> key)
      : ParseNode(std::move(input)),
        op_(std::move(op)),
        leaf_parser_(std::move(parser)),
        key_(std::move(key)),
        parser_(std::make_shared<const OneLeafParser>(op_, leaf_parser_, key_)) {
    (void)spec();  // throws if the strings cannot be parsed
  }

  std::string_view name() const override { return op_; }
  std::string describe() const override {
    return leaf_parser_->describe() + (key_ ? ", key=" + key_text(*key_) : "") + ")";
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<ParseLeafNode>(std::move(inputs.at(0)), op_, leaf_parser_, key_);
  }

  SpecPtr spec() const override {
    const SpecPtr before = input().spec();
    if (before == nullptr) return nullptr;
    const std::size_t leaf = find_strings(*before, key_, op_);
    ElementSpec part = leaf_parser_->spec(std::get<StringSpec>(before->leaves[leaf]).shape);
    ElementSpec spec{replace_leaf(before->structure, leaf, part.structure), before->leaves};
    splice(spec.leaves, leaf, std::move(part.leaves));
    return std::make_shared<const ElementSpec>(std::move(spec));
  }

 private:
  ElementParserPtr parser() const override { return parser_; }

  std::string op_;
  std::shared_ptr<const LeafParser> leaf_parser_;
  std::optional<LeafKey> key_;
  ElementParserPtr parser_;
};

}  // namespace

std::size_t find_strings(const ElementSpec& spec, const std::optional<LeafKey>& key, const std::string& op) {
  return find_leaf(*spec.structure, key, op,
                   [&](std::size_t leaf) { return std::holds_alternative<StringSpec>(spec.leaves[leaf]); });
}

StructurePtr replace_leaf(const StructurePtr& structure, std::size_t leaf, const StructurePtr& part) {
  if (structure->kind() == Structure::Kind::kLeaf) return part;
  if (part->kind() == Structure::Kind::kLeaf) return structure;
  std::vector<StructurePtr> children = structure->children();
  for (StructurePtr& child : children) {
    const auto leaves = static_cast<std::size_t>(child->leaf_count());
    if (leaf < leaves) {
      child = replace_leaf(child, leaf, part);
      break;
    }
    leaf -= leaves;
  }
  switch (structure->kind()) {
    case Structure::Kind::kTuple:
      return Structure::tuple(std::move(children));
    case Structure::Kind::kList:
      return Structure::list(std::move(children));
    case Structure::Kind::kDict:
      return Structure::dict(structure->keys(), std::move(children));
    default:
      return Structure::named_tuple(structure->name(), structure->keys(), std::move(children),
                                    structure->type());
  }
}

NodePtr parse_leaf(NodePtr input, std::string op, std::shared_ptr<const LeafParser> parser,
                   std::optional<LeafKey> key) {
  return std::make_shared<ParseLeafNode>(std::move(input), std::move(op), std::move(parser), std::move(key));
}

}  // namespace torch_distinput
