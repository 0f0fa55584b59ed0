// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/buffering/cache_plan.h"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>

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
  /// Keeps the last row, which then is no longer among them.
  void keep_last() {
    claims_.keep(rows_.back());
    rows_.pop_back();
  }
  void keep_all() {
    while (!rows_.empty()) keep_last();
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
  bool knows_lengths(std::size_t leaf) const override { return input_->knows_lengths(leaf); }
  void lengths(std::size_t leaf, std::span<std::int64_t> positions) const override {
    input_->lengths(leaf, positions);
  }
  std::vector<const Plan*> inputs() const override { return {input_.get()}; }
  std::int64_t num_source_rows() const override { return input_->num_source_rows(); }
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const override {
    input_->source_rows(positions, rows);
  }
  void source_rows_of(std::span<const Segment> segments, std::vector<std::int64_t>& rows) const override {
    input_->source_rows_of(segments, rows);
  }
  std::vector<std::int64_t> block_starts() const override { return input_->block_starts(); }
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

  /// Makes the first row that each other process has kept, and throws if it is another one here.
  void compare_with_others(std::span<const std::int64_t> positions) const {
    for (const std::int64_t position : positions) {
      const auto process = memory_->claims.kept_elsewhere(position);
      if (!process || memory_->agrees_with(*process)) continue;
      TORCH_CHECK_VALUE(is_kept_as_made_here(position), "cache: row ", position,
                        " is another one in another rank of this host, but with `shared` all of them must "
                        "make the same rows: from the same data, without randomness of their own.");
      memory_->note_agreement(*process);
    }
  }

 private:
  virtual bool is_kept_as_made_here(std::int64_t position) const = 0;

  PlanPtr input_;
  std::shared_ptr<RowMemory> memory_;
  std::shared_ptr<ExecutionContext> execution_;
};

/// Keeps whole elements: for rows without a static layout.
class ElementCachePlan final : public CachePlan {
 public:
  using CachePlan::CachePlan;

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    compare_with_others(positions);
    const RowClaims::Split split = memory().claims.claim(positions);
    Claimed mine(memory().claims, pick(positions, split.mine));
    std::vector<Element> result(positions.size());
    for (const std::size_t i : split.kept) result[i] = memory().read(positions[i], pool());
    fetch_into(result, positions, split.others);
    fetch_into(result, positions, split.mine);
    for (auto i = split.mine.rbegin(); i != split.mine.rend(); ++i) {
      if (!memory().write(positions[*i], result[*i], pool())) break;
      mine.keep_last();
    }
    return result;
  }

 private:
  bool is_kept_as_made_here(std::int64_t position) const override {
    std::int64_t scratch = position;
    return memory().holds(position, input().fetch({&scratch, 1}).front());
  }

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
    compare_with_others(positions);
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

  bool is_kept_as_made_here(std::int64_t position) const override {
    const BatchBuffer made = make_batch(*layout(), 1, pool());
    std::int64_t scratch = position;
    input().gather({&scratch, 1}, {}, made.sinks);
    for (std::size_t leaf = 0; leaf < made.sinks.size(); ++leaf) {
      const std::int64_t bytes = layout()->leaves[leaf].bytes;
      const char* const kept = memory().columns[leaf] + position * bytes;
      if (!std::equal(kept, kept + bytes, made.sinks[leaf].data)) return false;
    }
    return true;
  }

  void fill(std::vector<std::int64_t> rows) const {
    if (rows.empty()) return;
    Claimed mine(memory().claims, std::move(rows));
    std::vector<RowSink> sinks;
    const auto& leaves = layout()->leaves;
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      sinks.push_back({memory().columns[leaf], leaves[leaf].bytes});
    }
    std::vector<std::int64_t> scratch = mine.rows();
    input().gather(scratch, mine.rows(), sinks);
    mine.keep_all();
  }

  void gather_kept(std::span<const std::int64_t> rows, std::span<const std::int64_t> slots,
                   std::span<const RowSink> sinks) const {
    if (rows.empty()) return;
    for (std::size_t leaf = 0; leaf < sinks.size(); ++leaf) {
      gather_rows(memory().columns[leaf], layout()->leaves[leaf].bytes, rows, slots, sinks[leaf]);
    }
  }
};

}  // namespace

PlanPtr cache_plan(PlanPtr input, std::shared_ptr<RowMemory> memory,
                   std::shared_ptr<ExecutionContext> execution) {
  if (input->layout() == nullptr) {
    return std::make_shared<ElementCachePlan>(std::move(input), std::move(memory), std::move(execution));
  }
  return std::make_shared<ColumnCachePlan>(std::move(input), std::move(memory), std::move(execution));
}

}  // namespace torch_distinput
