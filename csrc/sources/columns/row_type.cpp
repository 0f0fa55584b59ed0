// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/row_type.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include "core/names.h"

namespace torch_distinput {
namespace {

using LeafSource = RowType::LeafSource;

/// The leaf of each top-level column that is one leaf.
std::vector<std::pair<std::string, std::size_t>> leaves_of_columns(const Structure& structure) {
  std::vector<std::pair<std::string, std::size_t>> found;
  std::size_t leaf = 0;
  for (std::size_t i = 0; i < structure.children().size(); ++i) {
    const Structure& child = *structure.children()[i];
    if (child.kind() == Structure::Kind::kLeaf) found.emplace_back(structure.keys()[i], leaf);
    leaf += static_cast<std::size_t>(child.leaf_count());
  }
  return found;
}

/// Puts the columns of one stack side by side.
class Stack {
 public:
  Stack(const RowType& type, std::string name, std::string op)
      : specs_(type.table.stored.leaves), name_(std::move(name)), op_(std::move(op)) {}

  void add(const std::string& column, std::size_t leaf) {
    const auto* const tensor = std::get_if<TensorSpec>(&specs_[leaf]);
    const bool rows = tensor != nullptr && tensor->shape->size() <= 1 &&
                      (tensor->shape->empty() || tensor->shape->front() != kUnknownDim);
    TORCH_CHECK_VALUE(rows, op_, ": `stack` '", name_,
                      "' needs columns of numbers, or of lists of a fixed number of them, but '", column,
                      "' is ", to_string(specs_[leaf]), ".");
    width_ += tensor->shape->empty() ? 1 : tensor->shape->front();
    dtype_ = source_.stored.empty() ? tensor->dtype : c10::promoteTypes(dtype_, tensor->dtype);
    source_.stored.push_back(leaf);
  }

  TensorSpec spec() const { return {Dims{width_}, dtype_, {}}; }
  LeafSource source() && { return std::move(source_); }

 private:
  const std::vector<LeafSpec>& specs_;
  std::string name_;
  std::string op_;
  std::int64_t width_ = 0;
  c10::ScalarType dtype_ = at::kFloat;
  LeafSource source_;
};

/// Makes blocks hold the numbers of a column as `dtype`.
void cast_column(TableType& table, const std::string& name, c10::ScalarType dtype) {
  for (ColumnType& column : table.root.children) {
    if (column.name != name) continue;
    ColumnType& numbers = column.kind == ColumnType::Kind::kFixedList ? column.children[0] : column;
    numbers.dtype = dtype;
  }
}

/// The leaves of a block that no stack takes, each as itself; then the stacks.
void add_stacks(RowType& type, const ColumnOptions& options, const std::string& op) {
  const Structure& stored = *type.table.stored.structure;
  TORCH_CHECK_VALUE(stored.kind() == Structure::Kind::kDict, op,
                    ": `stack` needs a table, not a single column.");
  const auto columns = leaves_of_columns(stored);
  std::vector<bool> taken(type.table.stored.leaves.size(), false);
  std::vector<std::string> names;
  std::vector<TensorSpec> specs;
  std::vector<LeafSource> sources;
  for (const auto& [name, parts] : options.stack) {
    TORCH_CHECK_VALUE(!parts.empty(), op, ": `stack` '", name, "' must name a column at least.");
    Stack stack(type, name, op);
    for (const std::string& part : parts) {
      const auto column =
          std::find_if(columns.begin(), columns.end(), [&](const auto& c) { return c.first == part; });
      TORCH_CHECK_VALUE(column != columns.end(), op, ": `stack` '", name, "' names the column '", part,
                        "', which is not there or is a struct.");
      TORCH_CHECK_VALUE(!taken[column->second], op, ": `stack` names the column '", part, "' twice.");
      stack.add(part, column->second);
      taken[column->second] = true;
    }
    names.push_back(name);
    specs.push_back(stack.spec());
    for (const std::string& part : parts) cast_column(type.table, part, specs.back().dtype);
    sources.push_back(std::move(stack).source());
  }
  std::vector<std::string> keys;
  std::vector<StructurePtr> parts;
  std::size_t leaf = 0;
  for (std::size_t i = 0; i < stored.children().size(); ++i) {
    const StructurePtr& child = stored.children()[i];
    const auto count = static_cast<std::size_t>(child->leaf_count());
    if (!(count == 1 && taken[leaf])) {
      keys.push_back(stored.keys()[i]);
      parts.push_back(child);
      for (std::size_t own = leaf; own < leaf + count; ++own) {
        type.sources.push_back({{own}});
        type.spec.leaves.push_back(type.table.stored.leaves[own]);
      }
    }
    leaf += count;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    TORCH_CHECK_VALUE(std::find(keys.begin(), keys.end(), names[i]) == keys.end(), op, ": `stack` '",
                      names[i], "' has the name of another leaf.");
    keys.push_back(names[i]);
    parts.push_back(Structure::leaf());
    type.spec.leaves.emplace_back(specs[i]);
    type.sources.push_back(std::move(sources[i]));
  }
  type.spec.structure = Structure::dict(std::move(keys), std::move(parts));
}

/// The layout of rows of `spec`; nullopt where a leaf is not dense and static.
std::optional<RowLayout> layout_of(const ElementSpec& spec) {
  RowLayout layout{spec.structure, {}};
  for (const LeafSpec& leaf : spec.leaves) {
    const auto* const tensor = std::get_if<TensorSpec>(&leaf);
    if (tensor == nullptr) return std::nullopt;
    auto bytes = static_cast<std::int64_t>(c10::elementSize(tensor->dtype));
    for (const std::int64_t dim : *tensor->shape) {
      if (dim == kUnknownDim) return std::nullopt;
      bytes *= dim;
    }
    layout.leaves.push_back({tensor->dtype, *tensor->shape, bytes});
  }
  return layout;
}

}  // namespace

std::shared_ptr<const RowType> row_type(const ArrowSchema& schema, const ColumnOptions& options,
                                        const std::string& op) {
  RowType type;
  type.table = table_type(schema, options, op);
  if (options.stack.empty()) {
    type.spec = type.table.stored;
    for (std::size_t leaf = 0; leaf < type.spec.leaves.size(); ++leaf) type.sources.push_back({{leaf}});
  } else {
    add_stacks(type, options, op);
  }
  if (auto layout = layout_of(type.spec)) {
    type.layout = *std::move(layout);
    type.dense = true;
  }
  return std::make_shared<const RowType>(std::move(type));
}

}  // namespace torch_distinput
