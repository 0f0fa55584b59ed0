// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/blocks_plan.h"

#include <algorithm>
#include <atomic>
#include <compare>
#include <cstring>
#include <span>
#include <utility>

#include "execution/ragged_plan.h"
#include "kernels/rows.h"

namespace torch_distinput {
namespace {

/// Blocks of files that one call holds at the same time, unless more are kept.
constexpr std::int64_t kMaxHeld = 8;

class BlocksPlan final : public RaggedPlan {
 public:
  BlocksPlan(std::shared_ptr<const BlockSet> blocks, std::shared_ptr<const RowType> type,
             std::shared_ptr<BufferPool> pool, std::string op)
      : blocks_(std::move(blocks)), type_(std::move(type)), pool_(std::move(pool)), op_(std::move(op)) {}

  std::int64_t size() const override { return blocks_->starts().back(); }
  PlanTraits traits() const override {
    return {.blocks = blocks_->reads_files(), .remote = blocks_->is_remote()};
  }
  SourceRow source_row(std::int64_t row) const override { return blocks_->source_row(row); }
  void will_read(std::span<std::int64_t> positions) const override { locate(positions); }
  /// Those of files, each of which is read as a whole.
  std::vector<std::int64_t> block_starts() const override {
    return blocks_->reads_files() ? blocks_->starts() : Plan::block_starts();
  }
  void keep_blocks(std::int64_t blocks) const override {
    blocks_->keep(blocks);
    if (blocks > most_held_) most_held_ = blocks;
  }
  const RowLayout* layout() const override { return type_->dense ? &type_->layout : nullptr; }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    const std::vector<Group> groups = locate(positions);
    if (in_order(groups)) {
      for (const Group& group : groups) {
        const BlockRun run = run_of(blocks_->block(group.block), group, positions);
        gather_runs(*type_, {&run, 1}, slots, sinks);
      }
      return;
    }
    const std::vector<Visit> visits = visits_of(groups);
    if (!too_many(visits)) return gather_runs(*type_, runs_of(groups, visits, positions), slots, sinks);
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
    const std::vector<Visit> visits = visits_of(groups);
    if (too_many(visits)) return stack_rows(fetch_at(groups, positions), *pool_, op_);
    return batch_of_runs(*type_, runs_of(groups, visits, positions), *pool_, op_);
  }

  /// Blocks of files would have to be read to know the lengths of their lists.
  bool knows_lengths(std::size_t leaf) const override {
    return Plan::knows_lengths(leaf) ||
           (!blocks_->reads_files() && leaf < type_->sources.size() && is_list(leaf));
  }
  void lengths(std::size_t leaf, std::span<std::int64_t> positions) const override {
    if (Plan::knows_lengths(leaf)) return Plan::lengths(leaf, positions);
    const std::size_t stored = type_->sources[leaf].stored.front();
    for (const Group& group : locate(positions)) {
      const BlockPtr block = blocks_->block(group.block);
      const auto& lists = std::get<Ragged>(block->value.leaves()[stored]);
      const auto* const bounds = static_cast<const std::int64_t*>(lists.offsets.const_data_ptr());
      for (std::size_t i = group.begin; i < group.end; ++i)
        positions[i] = bounds[positions[i] + 1] - bounds[positions[i]];
    }
  }

  /// Of lists of numbers in memory, copies the pieces alone.
  void gather_pieces(std::size_t leaf, c10::ScalarType dtype, std::span<const Segment> pieces,
                     std::span<char* const> to) const override {
    const auto* const spec = std::get_if<TensorSpec>(&type_->spec.leaves[leaf]);
    if (blocks_->reads_files() || !is_list(leaf) || spec->shape->size() != 1 || spec->dtype != dtype)
      return Plan::gather_pieces(leaf, dtype, pieces, to);
    std::vector<std::int64_t> rows;
    rows.reserve(pieces.size());
    for (const Segment& piece : pieces) rows.push_back(piece.element);
    const std::size_t stored = type_->sources[leaf].stored.front();
    const auto item = static_cast<std::int64_t>(c10::elementSize(dtype));
    for (const Group& group : locate(rows)) {
      const BlockPtr block = blocks_->block(group.block);
      const auto& lists = std::get<Ragged>(block->value.leaves()[stored]);
      const auto* const bounds = static_cast<const std::int64_t*>(lists.offsets.const_data_ptr());
      const auto* const values = static_cast<const char*>(lists.values.const_data_ptr());
      for (std::size_t i = group.begin; i < group.end; ++i) {
        const auto& [element, begin, end] = pieces[i];
        if (begin < end)
          std::memcpy(to[i], values + (bounds[rows[i]] + begin) * item,
                      static_cast<std::size_t>((end - begin) * item));
      }
    }
  }

  bool fetches_ragged() const override { return true; }
  Element fetch_ragged(std::span<std::int64_t> positions) const override {
    const std::vector<Group> groups = locate(positions);
    const std::vector<Visit> visits = visits_of(groups);
    if (too_many(visits))
      return stack_ragged_rows(fetch_at(groups, positions), lists_of(*type_), *pool_, op_);
    return ragged_batch_of_runs(*type_, runs_of(groups, visits, positions), *pool_);
  }

 private:
  /// Consecutive positions that lie in one block.
  struct Group {
    std::size_t block;
    std::size_t begin, end;
  };
  /// A group by its number, and its block.
  struct Visit {
    std::size_t block;
    std::size_t group;
    auto operator<=>(const Visit&) const = default;
  };

  bool is_list(std::size_t leaf) const { return lists_of(*type_)[leaf]; }

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
    if (are_scattered(groups, std::ssize(positions))) blocks_->scatter();
    return groups;
  }

  void announce(const std::vector<Group>& groups) const {
    std::vector<std::size_t> blocks;
    blocks.reserve(groups.size());
    for (const Group& group : groups) blocks.push_back(group.block);
    blocks_->will_read(blocks);
  }

  /// Whether more blocks of files would be held at a time than memory should.
  bool too_many(std::span<const Visit> visits) const {
    return blocks_->reads_files() && std::ssize(visits) > most_held_ && count_blocks(visits) > most_held_;
  }

  /// Elements one by one, where `locate` has replaced their positions.
  std::vector<Element> fetch_at(const std::vector<Group>& groups, std::span<std::int64_t> rows) const {
    for (const Group& group : groups) {
      for (std::size_t i = group.begin; i < group.end; ++i) rows[i] += blocks_->starts()[group.block];
    }
    return fetch(rows);
  }

  /// Whether there are so many groups that they are those of a shuffle.
  static bool are_scattered(const std::vector<Group>& groups, std::int64_t positions) {
    constexpr std::int64_t kFewGroups = 16;
    constexpr std::int64_t kRowsOfRuns = 4;  // on average, where rows are in order but for a few places
    return std::ssize(groups) >= std::max(kFewGroups, positions / kRowsOfRuns) && !in_order(groups);
  }

  static bool in_order(const std::vector<Group>& groups) {
    return std::is_sorted(groups.begin(), groups.end(),
                          [](const Group& a, const Group& b) { return a.block < b.block; });
  }

  /// Those of one block one after the other.
  static std::vector<Visit> visits_of(const std::vector<Group>& groups) {
    std::vector<Visit> visits;
    visits.reserve(groups.size());
    for (std::size_t group = 0; group < groups.size(); ++group)
      visits.push_back({groups[group].block, group});
    std::sort(visits.begin(), visits.end());
    return visits;
  }

  static std::int64_t count_blocks(std::span<const Visit> visits) {
    std::int64_t blocks = 0;
    for (std::size_t i = 0; i < visits.size(); ++i)
      blocks += i == 0 || visits[i].block != visits[i - 1].block ? 1 : 0;
    return blocks;
  }

  static BlockRun run_of(BlockPtr block, const Group& group, std::span<const std::int64_t> rows) {
    return {std::move(block), rows.subspan(group.begin, group.end - group.begin),
            static_cast<std::int64_t>(group.begin)};
  }

  /// Each block is looked up once.
  std::vector<BlockRun> runs_of(const std::vector<Group>& groups, std::span<const Visit> visits,
                                std::span<const std::int64_t> rows) const {
    std::vector<BlockRun> runs(groups.size());
    BlockPtr block;
    for (std::size_t i = 0; i < visits.size(); ++i) {
      if (i == 0 || visits[i].block != visits[i - 1].block) block = blocks_->block(visits[i].block);
      runs[visits[i].group] = run_of(block, groups[visits[i].group], rows);
    }
    return runs;
  }

  /// Calls `read(block, rows, places of these rows)` once for each block.
  template <class Read>
  void for_each_block(std::vector<Group> groups, std::span<const std::int64_t> rows, const Read& read) const {
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
      read(blocks_->block(block), own, places);
    }
  }

  std::shared_ptr<const BlockSet> blocks_;
  std::shared_ptr<const RowType> type_;
  std::shared_ptr<BufferPool> pool_;
  std::string op_;
  mutable std::atomic<std::int64_t> most_held_{kMaxHeld};
};

}  // namespace

PlanPtr blocks_plan(std::shared_ptr<const BlockSet> blocks, std::shared_ptr<const RowType> type,
                    std::shared_ptr<BufferPool> pool, std::string op) {
  return std::make_shared<BlocksPlan>(std::move(blocks), std::move(type), std::move(pool), std::move(op));
}

}  // namespace torch_distinput
