// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/buffering/cache_plan.h"

#include <algorithm>
#include <utility>

#include "kernels/rows.h"

namespace torch_distinput {
namespace {

std::vector<std::int64_t> pick(std::span<const std::int64_t> values,
                               const std::vector<std::size_t>& indices) {
  std::vector<std::int64_t> picked;
  picked.reserve(indices.size());
  for (const std::size_t index : indices) picked.push_back(values[index]);
  return picked;
}

/// Rows claimed for filling. The destructor gives up those that were not kept because filling threw.
class Claimed {
 public:
  Claimed(RowClaims& claims, std::vector<std::int64_t> rows) : claims_(claims), rows_(std::move(rows)) {}
  ~Claimed() {
    for (const std::int64_t row : rows_) claims_.give_up(row);
  }
  Claimed(const Claimed&) = delete;
  Claimed& operator=(const Claimed&) = delete;

  const std::vector<std::int64_t>& rows() const { return rows_; }
  void keep() {
    for (const std::int64_t row : rows_) claims_.keep(row);
    rows_.clear();
  }

 private:
  RowClaims& claims_;
  std::vector<std::int64_t> rows_;
};

/// The common part of both cache plans.
class CachePlan : public Plan {
 public:
  CachePlan(PlanPtr input, std::shared_ptr<RowMemory> memory, std::shared_ptr<ExecutionContext> execution)
      : input_(std::move(input)), memory_(std::move(memory)), execution_(std::move(execution)) {}

  std::int64_t size() const override { return input_->size(); }
  PlanTraits traits() const override { return input_->traits(); }
  std::int64_t rows(std::int64_t position) const override { return input_->rows(position); }
  std::int64_t rows_before(std::int64_t position) const override { return input_->rows_before(position); }
  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    return input_->sampled(position);
  }
  /// Without the rows that are kept.
  void will_read(std::span<std::int64_t> positions) const override {
    const auto missing = std::partition(positions.begin(), positions.end(),
                                        [this](std::int64_t row) { return !memory_->claims.kept(row); });
    input_->will_read(positions.first(static_cast<std::size_t>(missing - positions.begin())));
  }

 protected:
  const Plan& input() const { return *input_; }
  RowMemory& memory() const { return *memory_; }
  BufferPool& pool() const { return *execution_->pool; }

 private:
  PlanPtr input_;
  std::shared_ptr<RowMemory> memory_;
  std::shared_ptr<ExecutionContext> execution_;
};

/// Keeps whole elements: for rows without a static layout.
class ElementCachePlan final : public CachePlan {
 public:
  using CachePlan::CachePlan;

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element>& kept = memory().elements;
    const RowClaims::Split split = memory().claims.claim(positions);
    Claimed mine(memory().claims, pick(positions, split.mine));
    std::vector<Element> result(positions.size());
    for (const std::size_t i : split.kept)
      result[i] = copy_element(kept[static_cast<std::size_t>(positions[i])], pool());
    fetch_into(result, positions, split.others);
    fetch_into(result, positions, split.mine);
    for (const std::size_t i : split.mine)
      kept[static_cast<std::size_t>(positions[i])] = copy_element(result[i], pool());
    mine.keep();
    return result;
  }

 private:
  void fetch_into(std::vector<Element>& result, std::span<const std::int64_t> positions,
                  const std::vector<std::size_t>& indices) const {
    if (indices.empty()) return;
    std::vector<std::int64_t> scratch = pick(positions, indices);
    std::vector<Element> elements = input().fetch(scratch);
    for (std::size_t i = 0; i < indices.size(); ++i) result[indices[i]] = std::move(elements[i]);
  }
};

/// Keeps one block of memory for each leaf: for rows with a static layout.
class ColumnCachePlan final : public CachePlan {
 public:
  using CachePlan::CachePlan;

  const RowLayout* layout() const override { return input().layout(); }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    if (memory().claims.all_kept(positions)) return gather_kept(positions, slots, sinks);
    RowClaims::Split split = memory().claims.claim(positions);
    fill(pick(positions, split.mine));
    split.kept.insert(split.kept.end(), split.mine.begin(), split.mine.end());
    gather_kept(pick(positions, split.kept), pick_slots(slots, split.kept), sinks);
    if (split.others.empty()) return;
    std::vector<std::int64_t> others = pick(positions, split.others);
    input().gather(others, pick_slots(slots, split.others), sinks);
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> result;
    result.reserve(positions.size());
    for (std::int64_t& position : positions) {
      // Each row gets its own block, so that a user who keeps one row does not keep its neighbours.
      const BatchBuffer row = make_batch(*layout(), 1, pool());
      gather({&position, 1}, {}, row.sinks);
      result.push_back(take_row(row.element, 0, "cache"));
    }
    return result;
  }

 private:
  static std::vector<std::int64_t> pick_slots(std::span<const std::int64_t> slots,
                                              const std::vector<std::size_t>& indices) {
    if (!slots.empty()) return pick(slots, indices);
    return {indices.begin(), indices.end()};
  }

  void fill(std::vector<std::int64_t> rows) const {
    if (rows.empty()) return;
    Claimed mine(memory().claims, std::move(rows));
    std::vector<RowSink> sinks;
    const auto& leaves = layout()->leaves;
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      sinks.push_back({memory().columns[leaf].get(), leaves[leaf].bytes});
    }
    std::vector<std::int64_t> scratch = mine.rows();
    input().gather(scratch, mine.rows(), sinks);
    mine.keep();
  }

  void gather_kept(std::span<const std::int64_t> rows, std::span<const std::int64_t> slots,
                   std::span<const RowSink> sinks) const {
    if (rows.empty()) return;
    for (std::size_t leaf = 0; leaf < sinks.size(); ++leaf) {
      gather_rows(memory().columns[leaf].get(), layout()->leaves[leaf].bytes, rows, slots, sinks[leaf]);
    }
  }
};

}  // namespace

RowClaims::Split RowClaims::claim(std::span<const std::int64_t> rows) {
  Split split;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::uint8_t seen = kMissing;
    if (mark(rows[i]).compare_exchange_strong(seen, kClaimed, std::memory_order_acquire)) {
      split.mine.push_back(i);
    } else {
      (seen == kKept ? split.kept : split.others).push_back(i);
    }
  }
  return split;
}

bool RowClaims::kept(std::int64_t row) const {
  return marks_[static_cast<std::size_t>(row)].load(std::memory_order_acquire) == kKept;
}

bool RowClaims::all_kept(std::span<const std::int64_t> rows) const {
  return std::all_of(rows.begin(), rows.end(), [this](std::int64_t row) { return kept(row); });
}

RowMemory::RowMemory(const Plan& plan) : claims(plan.size()) {
  const auto rows = static_cast<std::size_t>(plan.size());
  const RowLayout* layout = plan.layout();
  if (layout == nullptr) {
    elements.resize(rows);
    return;
  }
  for (const LeafLayout& leaf : layout->leaves) {
    // Uninitialised: the kernel allocates a page when its first row is written.
    columns.emplace_back(new char[rows * static_cast<std::size_t>(leaf.bytes)]);
  }
}

PlanPtr cache_plan(PlanPtr input, std::shared_ptr<RowMemory> memory,
                   std::shared_ptr<ExecutionContext> execution) {
  if (input->layout() == nullptr) {
    return std::make_shared<ElementCachePlan>(std::move(input), std::move(memory), std::move(execution));
  }
  return std::make_shared<ColumnCachePlan>(std::move(input), std::move(memory), std::move(execution));
}

}  // namespace torch_distinput
