// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <sstream>

#include <c10/util/Exception.h>

#include "execution/execution_context.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"
#include "sources/source_node.h"
#include "sources/sources.h"

namespace torch_distinput::sources {
namespace {

/// `start`, `start` + `step`, ... as long as it is before `stop`, as Python's range.
struct Range {
  std::int64_t start;
  std::int64_t stop;
  std::int64_t step;

  /// The number of values, which is negative if it needs 64 bits. In unsigned arithmetic, because `stop -
  /// start` may not fit into an int64.
  std::int64_t size() const {
    if (step > 0 ? start >= stop : start <= stop) return 0;
    const auto low = static_cast<std::uint64_t>(step > 0 ? start : stop);
    const auto high = static_cast<std::uint64_t>(step > 0 ? stop : start);
    const auto stride = step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
    return static_cast<std::int64_t>((high - low - 1) / stride + 1);
  }
  std::int64_t value(std::int64_t position) const { return start + position * step; }
};

class RangePlan final : public Plan {
 public:
  RangePlan(Range range, std::shared_ptr<BufferPool> pool)
      : range_(range), size_(range.size()), pool_(std::move(pool)) {}

  std::int64_t size() const override { return size_; }
  const RowLayout* layout() const override { return &layout_; }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const std::int64_t slot = slots.empty() ? static_cast<std::int64_t>(i) : slots[i];
      const std::int64_t value = range_.value(positions[i]);
      std::memcpy(sinks[0].data + slot * sinks[0].row_bytes, &value, sizeof(value));
    }
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> elements;
    elements.reserve(positions.size());
    for (const std::int64_t position : positions) {
      at::Tensor value = pooled_tensor({}, at::kLong, *pool_);
      *static_cast<std::int64_t*>(value.mutable_data_ptr()) = range_.value(position);
      elements.emplace_back(std::move(value));
    }
    return elements;
  }

 private:
  Range range_;
  std::int64_t size_;
  std::shared_ptr<BufferPool> pool_;
  RowLayout layout_{Structure::leaf(), {LeafLayout{at::kLong, {}, sizeof(std::int64_t)}}};
};

class RangeNode final : public SourceNode {
 public:
  explicit RangeNode(Range range) : range_(range) {}

  std::string_view name() const override { return "range"; }
  std::string describe() const override {
    std::ostringstream out;
    out << "range(start=" << range_.start << ", stop=" << range_.stop << ", step=" << range_.step << ')';
    return out.str();
  }
  SpecPtr spec() const override {
    return std::make_shared<const ElementSpec>(
        ElementSpec{Structure::leaf(), {TensorSpec{Dims{}, at::kLong, {}}}});
  }
  std::int64_t cardinality() const override { return range_.size(); }

  PlanPtr plan(const IterContext& context) const override {
    return std::make_shared<RangePlan>(range_, context.execution->pool);
  }
  IteratorPtr iterate(const IterContext& context) const override { return iterate_plan(plan(context)); }

 private:
  Range range_;
};

}  // namespace

NodePtr range(std::int64_t start, std::int64_t stop, std::int64_t step) {
  TORCH_CHECK_VALUE(step != 0, "range: `step` must not be 0.");
  const Range values{start, stop, step};
  TORCH_CHECK_VALUE(values.size() >= 0, "range: `stop` - `start` must be below 2^63, but `start` is ", start,
                    " and `stop` is ", stop, ".");
  return std::make_shared<RangeNode>(values);
}

}  // namespace torch_distinput::sources
