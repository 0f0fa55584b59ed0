// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include <memory>
#include <utility>

#include "execution/execution_context.h"
#include "kernels/host_memory.h"
#include "kernels/leaf_rows.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"
#include "sources/source_node.h"
#include "sources/sources.h"

namespace torch_distinput::sources {
namespace {

constexpr const char* kElementSlicesName = "from_tensor_slices";

/// `from_tensor_slices` for values with leaves that are not dense: row i along dim 0 of each leaf is element
/// i.
class ElementSlicesPlan final : public Plan {
 public:
  ElementSlicesPlan(std::shared_ptr<const Element> value, std::int64_t rows, std::shared_ptr<BufferPool> pool)
      : value_(std::move(value)), rows_(rows), pool_(std::move(pool)) {}

  std::int64_t size() const override { return rows_; }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    const std::vector<ReadGuard> memory = guard(*value_);
    std::vector<Element> elements;
    elements.reserve(positions.size());
    for (const std::int64_t position : positions) {
      Element& row = elements.emplace_back(take_row(*value_, position, kElementSlicesName));
      // Users may write to the elements they get, so dense rows must not share the source's memory.
      for (Leaf& leaf : row.leaves()) {
        if (auto* dense = std::get_if<at::Tensor>(&leaf)) *dense = copy(*dense, *pool_);
      }
    }
    return elements;
  }

 private:
  std::shared_ptr<const Element> value_;
  std::int64_t rows_;
  std::shared_ptr<BufferPool> pool_;
};

class ElementSlicesNode final : public SourceNode {
 public:
  ElementSlicesNode(Element value, std::int64_t rows)
      : value_(std::make_shared<const Element>(std::move(value))), rows_(rows) {}

  std::string_view name() const override { return kElementSlicesName; }
  std::string describe() const override {
    return c10::str(kElementSlicesName, "(rows=", rows_, ", ", to_string(*spec()), ")");
  }
  SpecPtr spec() const override {
    ElementSpec spec = spec_of(*value_);
    for (LeafSpec& leaf : spec.leaves) leaf = drop_dim0(leaf);
    return std::make_shared<const ElementSpec>(std::move(spec));
  }
  std::int64_t cardinality() const override { return rows_; }
  Traits traits() const override { return {.unshardable = true}; }

  PlanPtr plan(const IterContext& context) const override {
    return std::make_shared<ElementSlicesPlan>(value_, rows_, context.execution->pool);
  }
  IteratorPtr iterate(const IterContext& context) const override { return iterate_plan(plan(context)); }

 private:
  std::shared_ptr<const Element> value_;
  std::int64_t rows_;
};

}  // namespace

NodePtr element_slices(Element value, std::int64_t rows) {
  return std::make_shared<ElementSlicesNode>(std::move(value), rows);
}

}  // namespace torch_distinput::sources
