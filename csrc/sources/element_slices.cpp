// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "execution/execution_context.h"
#include "kernels/host_memory.h"
#include "kernels/leaf_rows.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"
#include "sources/dense_column.h"
#include "sources/source_node.h"
#include "sources/sources.h"

namespace torch_distinput::sources {
namespace {

constexpr const char* kElementSlicesName = "from_tensor_slices";

/// What is sliced: row i along dim 0 of each leaf is element i.
struct Slices {
  Element value;
  std::vector<std::optional<DenseColumn>> columns;  ///< of the dense leaves
  std::int64_t rows;
  bool gathers;  ///< rows of all leaves can be copied to a batch by their positions
};

Slices slices_of(Element value, std::int64_t rows) {
  Slices slices{std::move(value), {}, rows, true};
  for (Leaf& leaf : slices.value.leaves()) {
    std::optional<DenseColumn>& column = slices.columns.emplace_back();
    if (auto* const dense = std::get_if<at::Tensor>(&leaf)) {
      column = dense_column(*dense);
      *dense = column->tensor;
    } else if (!std::holds_alternative<Bytes>(leaf)) {
      slices.gathers = false;
    }
  }
  return slices;
}

at::Tensor gather_dense(const DenseColumn& column, std::span<const std::int64_t> rows, BufferPool& pool) {
  std::vector<std::int64_t> sizes = column.tensor.sizes().vec();
  sizes.front() = static_cast<std::int64_t>(rows.size());
  at::Tensor batch = pooled_tensor(sizes, column.tensor.scalar_type(), pool);
  const ReadGuard memory(column.tensor);
  gather_rows(memory.data(), column.stride, rows, {},
              {static_cast<char*>(batch.mutable_data_ptr()), column.row_bytes});
  return batch;
}

/// `from_tensor_slices` for values with leaves that are not dense.
class ElementSlicesPlan final : public Plan {
 public:
  ElementSlicesPlan(std::shared_ptr<const Slices> slices, std::shared_ptr<BufferPool> pool)
      : slices_(std::move(slices)), pool_(std::move(pool)) {}

  std::int64_t size() const override { return slices_->rows; }

  bool fetches_batches() const override { return slices_->gathers; }
  Element fetch_batch(std::span<std::int64_t> positions) const override {
    std::vector<Leaf> leaves;
    for (std::size_t leaf = 0; leaf < slices_->columns.size(); ++leaf) {
      if (const auto& column = slices_->columns[leaf]) {
        leaves.emplace_back(gather_dense(*column, positions, *pool_));
      } else {
        const auto& strings = std::get<Bytes>(slices_->value.leaves()[leaf]);
        leaves.emplace_back(torch_distinput::gather(strings, positions, *pool_));
      }
    }
    return {slices_->value.structure(), std::move(leaves)};
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    const std::vector<ReadGuard> memory = guard(slices_->value);
    std::vector<Element> elements;
    elements.reserve(positions.size());
    for (const std::int64_t position : positions) {
      Element& row = elements.emplace_back(take_row(slices_->value, position, kElementSlicesName));
      // Users may write to the elements they get, so dense rows must not share the source's memory.
      for (Leaf& leaf : row.leaves()) {
        if (auto* dense = std::get_if<at::Tensor>(&leaf)) *dense = copy(*dense, *pool_);
      }
    }
    return elements;
  }

  bool knows_lengths(std::size_t leaf) const override {
    if (leaf >= slices_->columns.size()) return false;
    const auto& column = slices_->columns[leaf];
    return column ? column->tensor.dim() > 1 : std::holds_alternative<Ragged>(slices_->value.leaves()[leaf]);
  }
  void lengths(std::size_t leaf, std::span<std::int64_t> positions) const override {
    if (const auto& column = slices_->columns[leaf])
      return std::fill(positions.begin(), positions.end(), column->tensor.size(1));
    const ReadGuard memory(ragged(leaf).offsets);
    const auto* const bounds = reinterpret_cast<const std::int64_t*>(memory.data());
    for (std::int64_t& position : positions) position = bounds[position + 1] - bounds[position];
  }

  /// Of lists of numbers, copies the pieces alone.
  void gather_pieces(std::size_t leaf, c10::ScalarType dtype, std::span<const Segment> pieces,
                     std::span<char* const> to) const override {
    const auto* const lists = std::get_if<Ragged>(&slices_->value.leaves()[leaf]);
    if (lists == nullptr || lists->values.dim() != 1 || lists->values.scalar_type() != dtype ||
        !lists->values.is_contiguous())
      return Plan::gather_pieces(leaf, dtype, pieces, to);
    const ReadGuard offsets(lists->offsets);
    const ReadGuard values(lists->values);
    const auto* const bounds = reinterpret_cast<const std::int64_t*>(offsets.data());
    const auto item = static_cast<std::int64_t>(c10::elementSize(dtype));
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto& [element, begin, end] = pieces[i];
      if (begin < end)
        std::memcpy(to[i], values.data() + (bounds[element] + begin) * item,
                    static_cast<std::size_t>((end - begin) * item));
    }
  }

 private:
  const Ragged& ragged(std::size_t leaf) const { return std::get<Ragged>(slices_->value.leaves()[leaf]); }

  std::shared_ptr<const Slices> slices_;
  std::shared_ptr<BufferPool> pool_;
};

class ElementSlicesNode final : public SourceNode {
 public:
  explicit ElementSlicesNode(Slices slices) : slices_(std::make_shared<const Slices>(std::move(slices))) {}

  std::string_view name() const override { return kElementSlicesName; }
  std::string describe() const override {
    return c10::str(kElementSlicesName, "(rows=", slices_->rows, ", ", to_string(*spec()), ")");
  }
  SpecPtr spec() const override {
    ElementSpec spec = spec_of(slices_->value);
    for (LeafSpec& leaf : spec.leaves) leaf = drop_dim0(leaf);
    return std::make_shared<const ElementSpec>(std::move(spec));
  }
  std::int64_t cardinality() const override { return slices_->rows; }

  PlanPtr plan(const IterContext& context) const override {
    return std::make_shared<ElementSlicesPlan>(slices_, context.execution->pool);
  }
  IteratorPtr iterate(const IterContext& context) const override { return iterate_plan(plan(context)); }

 private:
  std::shared_ptr<const Slices> slices_;
};

}  // namespace

NodePtr element_slices(Element value, std::int64_t rows) {
  return std::make_shared<ElementSlicesNode>(slices_of(std::move(value), rows));
}

}  // namespace torch_distinput::sources
