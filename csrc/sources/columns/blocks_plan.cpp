// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/blocks_plan.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/distinct.h"
#include "execution/ragged_plan.h"
#include "kernels/rows.h"
#include "sources/columns/block_finder.h"

namespace torch_distinput {
namespace {

/// Blocks of files that one call holds at the same time, unless more are kept.
constexpr std::int64_t kMaxHeld = 8;

class BlocksPlan final : public RaggedPlan {
 public:
  BlocksPlan(std::shared_ptr<const BlockSet> blocks, std::shared_ptr<const RowType> type,
             std::shared_ptr<BufferPool> pool, std::string op)
      : blocks_(std::move(blocks)),
        block_of_(blocks_->starts()),
        type_(std::move(type)),
        pool_(std::move(pool)),
        op_(std::move(op)) {}

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
    const Distinct blocks = blocks_of(groups);
    if (!too_many(blocks)) return gather_runs(*type_, runs_of(groups, blocks, positions), slots, sinks);
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

  void gather_batches(std::span<std::int64_t> positions, std::span<const BatchRows> batches) const override {
    std::vector<std::size_t> counts;
    for (const BatchRows& batch : batches) counts.push_back(batch.count);
    const auto runs = runs_of_batches(positions, counts);
    if (!runs) return Plan::gather_batches(positions, batches);
    for (std::size_t i = 0; i < batches.size(); ++i) gather_runs(*type_, runs->of(i), {}, batches[i].sinks);
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
    const Distinct blocks = blocks_of(groups);
    if (too_many(blocks)) return stack_rows(fetch_at(groups, positions), *pool_, op_);
    return batch_of_runs(*type_, runs_of(groups, blocks, positions), *pool_, op_);
  }

  std::vector<Element> fetch_batches(std::span<std::int64_t> positions,
                                     std::span<const std::size_t> counts) const override {
    const auto runs = runs_of_batches(positions, counts);
    if (!runs) return Plan::fetch_batches(positions, counts);
    std::vector<Element> batches;
    batches.reserve(counts.size());
    for (std::size_t i = 0; i < counts.size(); ++i)
      batches.push_back(batch_of_runs(*type_, runs->of(i), *pool_, op_));
    return batches;
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
    const Distinct blocks = blocks_of(groups);
    if (too_many(blocks))
      return stack_ragged_rows(fetch_at(groups, positions), lists_of(*type_), *pool_, op_);
    return ragged_batch_of_runs(*type_, runs_of(groups, blocks, positions), *pool_);
  }

 private:
  /// Consecutive positions of one batch that lie in one block.
  struct Group {
    std::size_t block;
    std::size_t begin, end;
    std::int64_t first;  ///< the row of its batch at `begin`
  };

  /// The rows of several batches.
  struct BatchRuns {
    std::vector<BlockRun> runs;
    std::vector<std::size_t> ends;  ///< the runs up to the end of each batch

    std::span<const BlockRun> of(std::size_t batch) const {
      const std::size_t begin = batch == 0 ? 0 : ends[batch - 1];
      return std::span(runs).subspan(begin, ends[batch] - begin);
    }
  };

  bool is_list(std::size_t leaf) const { return lists_of(*type_)[leaf]; }

  /// Replaces positions by the rows of their blocks, which will be read.
  std::vector<Group> locate(std::span<std::int64_t> positions) const {
    const std::size_t count = positions.size();
    return locate(positions, {&count, 1});
  }

  /// The same for batches of `counts` positions.
  std::vector<Group> locate(std::span<std::int64_t> positions, std::span<const std::size_t> counts) const {
    const std::vector<std::int64_t>& starts = blocks_->starts();
    std::vector<Group> groups;
    std::size_t first = 0;  // of a batch
    for (const std::size_t count : counts) {
      std::int64_t begin = 0, end = 0;  // the rows of the group's block
      for (std::size_t i = first; i < first + count; ++i) {
        if (positions[i] < begin || positions[i] >= end) {
          const std::size_t block = block_of_(positions[i]);
          begin = starts[block];
          end = starts[block + 1];
          groups.push_back({block, i, i, static_cast<std::int64_t>(i - first)});
        }
        positions[i] -= begin;
        groups.back().end = i + 1;
      }
      first += count;
    }
    if (blocks_->is_remote()) announce(groups);
    if (are_scattered(groups, std::ssize(positions))) blocks_->scatter();
    return groups;
  }

  /// The positions from rows of blocks.
  void undo_locate(const std::vector<Group>& groups, std::span<std::int64_t> rows) const {
    for (const Group& group : groups) {
      for (std::size_t i = group.begin; i < group.end; ++i) rows[i] += blocks_->starts()[group.block];
    }
  }

  void announce(const std::vector<Group>& groups) const {
    std::vector<std::size_t> blocks;
    blocks.reserve(groups.size());
    for (const Group& group : groups) blocks.push_back(group.block);
    blocks_->will_read(blocks);
  }

  /// Whether more blocks of files would be held at a time than memory should.
  bool too_many(const Distinct& blocks) const {
    return blocks_->reads_files() && std::ssize(blocks.values) > most_held_;
  }

  /// Elements one by one, where `locate` has replaced their positions.
  std::vector<Element> fetch_at(const std::vector<Group>& groups, std::span<std::int64_t> rows) const {
    undo_locate(groups, rows);
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

  static Distinct blocks_of(const std::vector<Group>& groups) {
    std::vector<std::size_t> blocks;
    blocks.reserve(groups.size());
    for (const Group& group : groups) blocks.push_back(group.block);
    return distinct(blocks);
  }

  static BlockRun run_of(BlockPtr block, const Group& group, std::span<const std::int64_t> rows) {
    return {std::move(block), rows.subspan(group.begin, group.end - group.begin), group.first};
  }

  /// Each block is looked up once.
  std::vector<BlockRun> runs_of(const std::vector<Group>& groups, const Distinct& blocks,
                                std::span<const std::int64_t> rows) const {
    const std::vector<BlockPtr> held = blocks_->blocks(blocks.values);
    std::vector<BlockRun> runs;
    runs.reserve(groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i)
      runs.push_back(run_of(held[blocks.which[i]], groups[i], rows));
    return runs;
  }

  /// Those of batches of `counts` positions, whose blocks are all looked up first. Not set, and positions as
  /// they were, where that is no gain, or would hold more blocks than memory should.
  std::optional<BatchRuns> runs_of_batches(std::span<std::int64_t> positions,
                                           std::span<const std::size_t> counts) const {
    const std::vector<Group> groups = locate(positions, counts);
    const Distinct blocks = blocks_of(groups);
    if (in_order(groups) || too_many(blocks)) {
      undo_locate(groups, positions);
      return std::nullopt;
    }
    BatchRuns batches{runs_of(groups, blocks, positions), {}};
    std::size_t run = 0;
    for (std::size_t count : counts) {
      for (; count > 0; ++run) count -= batches.runs[run].rows.size();
      batches.ends.push_back(run);
    }
    return batches;
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
  BlockFinder block_of_;
  std::shared_ptr<const RowType> type_;
  std::shared_ptr<BufferPool> pool_;
  std::string op_;
  mutable std::atomic<std::int64_t> most_held_{kMaxHeld};
};

}  // namespace

std::vector<BlockPtr> BlockSet::blocks(std::span<const std::size_t> indices) const {
  std::vector<BlockPtr> found;
  found.reserve(indices.size());
  for (const std::size_t index : indices) found.push_back(block(index));
  return found;
}

PlanPtr blocks_plan(std::shared_ptr<const BlockSet> blocks, std::shared_ptr<const RowType> type,
                    std::shared_ptr<BufferPool> pool, std::string op) {
  return std::make_shared<BlocksPlan>(std::move(blocks), std::move(type), std::move(pool), std::move(op));
}

}  // namespace torch_distinput
