// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/element_type.h"
#include "execution/execution_context.h"
#include "kernels/dense.h"
#include "kernels/host_memory.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"
#include "sources/source_node.h"
#include "sources/sources.h"

namespace torch_distinput::sources {
namespace {

bool is_dense(const Leaf& leaf) { return std::holds_alternative<at::Tensor>(leaf); }

/// The layout of `value` as a row; nullopt if a leaf is not dense.
std::optional<RowLayout> layout_of(const Element& value) {
  RowLayout layout{value.structure(), {}};
  for (const Leaf& leaf : value.leaves()) {
    if (!is_dense(leaf)) return std::nullopt;
    const auto& tensor = std::get<at::Tensor>(leaf);
    layout.leaves.push_back(
        {tensor.scalar_type(), tensor.sizes().vec(), static_cast<std::int64_t>(tensor.nbytes())});
  }
  return layout;
}

class TensorsPlan final : public Plan {
 public:
  TensorsPlan(Element value, std::shared_ptr<BufferPool> pool)
      : value_(std::move(value)), layout_(layout_of(value_)), pool_(std::move(pool)) {}

  std::int64_t size() const override { return 1; }
  const RowLayout* layout() const override { return layout_ ? &*layout_ : nullptr; }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const std::int64_t slot = slots.empty() ? static_cast<std::int64_t>(i) : slots[i];
      for (std::size_t leaf = 0; leaf < sinks.size(); ++leaf) {
        const auto& tensor = std::get<at::Tensor>(value_.leaves()[leaf]);
        const ReadGuard memory(tensor);
        copy_items(tensor, sinks[leaf].data + slot * sinks[leaf].row_bytes);
      }
    }
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    const std::vector<ReadGuard> memory = guard(value_);
    std::vector<Element> elements;
    for (std::size_t i = 0; i < positions.size(); ++i) elements.push_back(copy_element(value_, *pool_));
    return elements;
  }

 private:
  Element value_;
  std::optional<RowLayout> layout_;
  std::shared_ptr<BufferPool> pool_;
};

class TensorsNode final : public SourceNode {
 public:
  explicit TensorsNode(Element value) : value_(std::move(value)) {}

  std::string_view name() const override { return "from_tensors"; }
  std::string describe() const override { return "from_tensors(" + to_string(spec_of(value_)) + ")"; }
  SpecPtr spec() const override { return std::make_shared<const ElementSpec>(spec_of(value_)); }
  std::int64_t cardinality() const override { return 1; }

  PlanPtr plan(const IterContext& context) const override {
    return std::make_shared<TensorsPlan>(value_, context.execution->pool);
  }
  IteratorPtr iterate(const IterContext& context) const override { return iterate_plan(plan(context)); }

 private:
  Element value_;
};

}  // namespace

NodePtr tensors(Element value) {
  check_defined(value, "from_tensors");
  for (std::size_t leaf = 0; leaf < value.leaves().size(); ++leaf) {
    if (is_dense(value.leaves()[leaf])) dense_leaf(value, leaf, "from_tensors", "hold");
  }
  guard_reads(value);
  return std::make_shared<TensorsNode>(std::move(value));
}

}  // namespace torch_distinput::sources
