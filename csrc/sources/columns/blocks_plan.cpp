// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/blocks_plan.h"

#include <algorithm>
#include <span>
#include <utility>

#include "execution/ragged_plan.h"
#include "kernels/rows.h"

namespace torch_distinput {
namespace {

/// Blocks of files that one call holds at the same time.
constexpr std::size_t kMaxHeld = 8;

class BlocksPlan final : public RaggedPlan {
 public:
  BlocksPlan(std::shared_ptr<const BlockSet> blocks, std::shared_ptr<const RowType> type,
             std::shared_ptr<BufferPool> pool, std::string op)
      : blocks_(std::move(blocks)), type_(std::move(type)), pool_(std::move(pool)), op_(std::move(op)) {}

  std::int64_t size() const override { return blocks_->starts().back(); }
  PlanTraits traits() const override {
    return {.blocks = blocks_->reads_files(), .remote = blocks_->is_remote()};
  }
  void will_read(std::span<std::int64_t> positions) const override { locate(positions); }
  const RowLayout* layout() const override { return type_->dense ? &type_->layout : nullptr; }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    const std::vector<Group> groups = locate(positions);
    if (in_order(groups)) {
      for (const Group& group : groups) {
        const BlockRun run = run_of(group, positions);
        gather_runs(*type_, {&run, 1}, slots, sinks);
      }
      return;
    }
    for_each_block(
        groups, positions,
        [&](const BlockPtr& block, std::span<const std::int64_t> rows, std::span<const std::int64_t> places) {
          std::vector<std::int64_t> to(places.begin(), places.end());
          if (!slots.empty()) {
            for (std::int64_t& place : to) place = slots[static_cast<std::size_t>(place)];
          }
          const BlockRun run{block, rows, 0};
          gather_runs(*type_, {&run, 1}, to, sinks);
        });
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> elements(positions.size());
    for_each_block(
        locate(positions), positions,
        [&](const BlockPtr& block, std::span<const std::int64_t> rows, std::span<const std::int64_t> places) {
          const BlockRun run{block, rows, 0};
          std::vector<Element> found = elements_of_runs(*type_, {&run, 1}, *pool_);
          for (std::size_t i = 0; i < places.size(); ++i)
            elements[static_cast<std::size_t>(places[i])] = std::move(found[i]);
        });
    return elements;
  }

  bool fetches_batches() const override { return !type_->dense; }
  Element fetch_batch(std::span<std::int64_t> positions) const override {
    const std::vector<Group> groups = locate(positions);
    if (too_many(groups)) return stack_rows(fetch_at(groups, positions), *pool_, op_);
    return batch_of_runs(*type_, runs_of(groups, positions), *pool_, op_);
  }

  bool fetches_ragged() const override { return true; }
  Element fetch_ragged(std::span<std::int64_t> positions) const override {
    const std::vector<Group> groups = locate(positions);
    if (too_many(groups))
      return stack_ragged_rows(fetch_at(groups, positions), lists_of(*type_), *pool_, op_);
    return ragged_batch_of_runs(*type_, runs_of(groups, positions), *pool_);
  }

 private:
  /// Consecutive positions that lie in one block.
  struct Group {
    std::size_t block;
    std::size_t begin, end;
  };

  /// Replaces positions by the rows of their blocks, which will be read.
  std::vector<Group> locate(std::span<std::int64_t> positions) const {
    const std::vector<std::int64_t>& starts = blocks_->starts();
    std::vector<Group> groups;
    std::int64_t begin = 0, end = 0;  // the rows of the group's block
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] < begin || positions[i] >= end) {
        const auto after = std::upper_bound(starts.begin(), starts.end(), positions[i]);
        begin = *(after - 1);
        end = *after;
        const auto block = static_cast<std::size_t>(after - starts.begin()) - 1;
        groups.push_back({block, i, i});
      }
      positions[i] -= begin;
      groups.back().end = i + 1;
    }
    if (blocks_->is_remote()) announce(groups);
    return groups;
  }

  void announce(const std::vector<Group>& groups) const {
    std::vector<std::size_t> blocks;
    blocks.reserve(groups.size());
    for (const Group& group : groups) blocks.push_back(group.block);
    blocks_->will_read(blocks);
  }

  /// Whether more blocks of files would be held at a time than memory should.
  bool too_many(const std::vector<Group>& groups) const {
    return blocks_->reads_files() && count_blocks(groups) > kMaxHeld;
  }

  /// Elements one by one, where `locate` has replaced their positions.
  std::vector<Element> fetch_at(const std::vector<Group>& groups, std::span<std::int64_t> rows) const {
    for (const Group& group : groups) {
      for (std::size_t i = group.begin; i < group.end; ++i) rows[i] += blocks_->starts()[group.block];
    }
    return fetch(rows);
  }

  static bool in_order(const std::vector<Group>& groups) {
    return std::is_sorted(groups.begin(), groups.end(),
                          [](const Group& a, const Group& b) { return a.block < b.block; });
  }

  static std::size_t count_blocks(const std::vector<Group>& groups) {
    std::vector<std::size_t> blocks;
    blocks.reserve(groups.size());
    for (const Group& group : groups) blocks.push_back(group.block);
    std::sort(blocks.begin(), blocks.end());
    return static_cast<std::size_t>(std::unique(blocks.begin(), blocks.end()) - blocks.begin());
  }

  BlockRun run_of(const Group& group, std::span<const std::int64_t> rows) const {
    return {blocks_->block(group.block), rows.subspan(group.begin, group.end - group.begin),
            static_cast<std::int64_t>(group.begin)};
  }

  std::vector<BlockRun> runs_of(const std::vector<Group>& groups, std::span<const std::int64_t> rows) const {
    std::vector<BlockRun> runs;
    runs.reserve(groups.size());
    for (const Group& group : groups) runs.push_back(run_of(group, rows));
    return runs;
  }

  /// Calls `visit(block, rows, places of these rows)` once for each block.
  template <class Visit>
  void for_each_block(std::vector<Group> groups, std::span<const std::int64_t> rows,
                      const Visit& visit) const {
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Group& a, const Group& b) { return a.block < b.block; });
    std::vector<std::int64_t> own, places;
    for (std::size_t first = 0; first < groups.size();) {
      own.clear();
      places.clear();
      const std::size_t block = groups[first].block;
      for (; first < groups.size() && groups[first].block == block; ++first) {
        for (std::size_t i = groups[first].begin; i < groups[first].end; ++i) {
          own.push_back(rows[i]);
          places.push_back(static_cast<std::int64_t>(i));
        }
      }
      visit(blocks_->block(block), own, places);
    }
  }

  std::shared_ptr<const BlockSet> blocks_;
  std::shared_ptr<const RowType> type_;
  std::shared_ptr<BufferPool> pool_;
  std::string op_;
};

}  // namespace

PlanPtr blocks_plan(std::shared_ptr<const BlockSet> blocks, std::shared_ptr<const RowType> type,
                    std::shared_ptr<BufferPool> pool, std::string op) {
  return std::make_shared<BlocksPlan>(std::move(blocks), std::move(type), std::move(pool), std::move(op));
}

}  // namespace torch_distinput
