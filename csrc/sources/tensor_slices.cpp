// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <c10/util/Exception.h>

#include "core/element_type.h"
#include "execution/execution_context.h"
#include "kernels/dense.h"
#include "kernels/host_memory.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"
#include "sources/dense_column.h"
#include "sources/source_node.h"
#include "sources/sources.h"

namespace torch_distinput::sources {
namespace {

constexpr const char* kTensorSlicesName = "from_tensor_slices";

/// The leaves of a value whose leaves are all dense.
struct Table {
  std::int64_t rows;
  std::vector<DenseColumn> columns;
  RowLayout layout;
};

/// Returns the number of rows along dim 0. Throws unless every leaf has that many.
std::int64_t count_rows(const Element& value) {
  TORCH_CHECK_VALUE(!value.leaves().empty(), kTensorSlicesName,
                    ": the value must have at least one leaf, but is ", value.structure()->str(), ".");
  const ElementSpec spec = spec_of(value);
  const std::int64_t rows = dim0(spec.leaves.front()).value_or(0);
  for (std::size_t leaf = 0; leaf < spec.leaves.size(); ++leaf) {
    if (std::holds_alternative<at::Tensor>(value.leaves()[leaf]))
      dense_leaf(value, leaf, kTensorSlicesName, "slice");
    const auto here = dim0(spec.leaves[leaf]);
    TORCH_CHECK_VALUE(here, kTensorSlicesName, ": ", leaf_name(*value.structure(), leaf),
                      " is a scalar, but must have rows along dim 0.");
    TORCH_CHECK_VALUE(*here == rows, kTensorSlicesName, ": all leaves must have the same size in dim 0, but ",
                      leaf_name(*value.structure(), 0), " has ", rows, " and ",
                      leaf_name(*value.structure(), leaf), " has ", *here, ".");
  }
  return rows;
}

bool all_dense(const Element& value) {
  return std::all_of(value.leaves().begin(), value.leaves().end(),
                     [](const Leaf& leaf) { return std::holds_alternative<at::Tensor>(leaf); });
}

Table table_of(const Element& value, std::int64_t rows) {
  Table table{rows, {}, {value.structure(), {}}};
  for (const Leaf& leaf : value.leaves()) {
    const auto& tensor = std::get<at::Tensor>(leaf);
    const DenseColumn& column = table.columns.emplace_back(dense_column(tensor));
    table.layout.leaves.push_back({tensor.scalar_type(), tensor.sizes().slice(1).vec(), column.row_bytes});
  }
  return table;
}

/// Copies rows from the user's memory straight into batches (`gather`) or into tensors of their own
/// (`fetch`).
class TensorSlicesPlan final : public Plan {
 public:
  TensorSlicesPlan(std::shared_ptr<const Table> table, std::shared_ptr<BufferPool> pool)
      : table_(std::move(table)), pool_(std::move(pool)) {}

  std::int64_t size() const override { return table_->rows; }
  const RowLayout* layout() const override { return &table_->layout; }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    for (std::size_t leaf = 0; leaf < sinks.size(); ++leaf) {
      const DenseColumn& column = table_->columns[leaf];
      const ReadGuard memory(column.tensor);
      gather_rows(memory.data(), column.stride, positions, slots, sinks[leaf]);
    }
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<ReadGuard> memory;
    for (const DenseColumn& column : table_->columns) memory.emplace_back(column.tensor);
    std::vector<Element> elements;
    elements.reserve(positions.size());
    for (const std::int64_t position : positions) elements.push_back(row(position, memory));
    return elements;
  }

 private:
  Element row(std::int64_t position, std::span<const ReadGuard> memory) const {
    std::vector<Leaf> leaves;
    leaves.reserve(table_->columns.size());
    for (std::size_t leaf = 0; leaf < table_->columns.size(); ++leaf) {
      const DenseColumn& column = table_->columns[leaf];
      const LeafLayout& layout = table_->layout.leaves[leaf];
      const auto& tensor =
          std::get<at::Tensor>(leaves.emplace_back(pooled_tensor(layout.shape, layout.dtype, *pool_)));
      std::memcpy(tensor.mutable_data_ptr(), memory[leaf].data() + position * column.stride,
                  static_cast<std::size_t>(column.row_bytes));
    }
    return {table_->layout.structure, std::move(leaves)};
  }

  std::shared_ptr<const Table> table_;
  std::shared_ptr<BufferPool> pool_;
};

class TensorSlicesNode final : public SourceNode {
 public:
  explicit TensorSlicesNode(Table table) : table_(std::make_shared<const Table>(std::move(table))) {}

  std::string_view name() const override { return kTensorSlicesName; }
  std::string describe() const override {
    return c10::str(kTensorSlicesName, "(rows=", table_->rows, ", ", to_string(*spec()), ")");
  }
  SpecPtr spec() const override {
    ElementSpec spec{table_->layout.structure, {}};
    for (const auto& leaf : table_->layout.leaves)
      spec.leaves.emplace_back(TensorSpec{leaf.shape, leaf.dtype, {}});
    return std::make_shared<const ElementSpec>(std::move(spec));
  }
  std::int64_t cardinality() const override { return table_->rows; }

  PlanPtr plan(const IterContext& context) const override {
    return std::make_shared<TensorSlicesPlan>(table_, context.execution->pool);
  }
  IteratorPtr iterate(const IterContext& context) const override { return iterate_plan(plan(context)); }

 private:
  std::shared_ptr<const Table> table_;
};

}  // namespace

NodePtr tensor_slices(Element value) {
  check_defined(value, kTensorSlicesName);
  const std::int64_t rows = count_rows(value);
  guard_reads(value);
  if (!all_dense(value)) return element_slices(std::move(value), rows);
  return std::make_shared<TensorSlicesNode>(table_of(value, rows));
}

}  // namespace torch_distinput::sources
