// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/lane_order.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/mix_keys.h"
#include "runtime/permutation.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 61;

/// What keys are derived for.
enum Purpose : std::uint64_t { kDeal, kBlocks, kRows };

struct RowRange {
  std::int64_t begin;
  std::int64_t rows;
};

std::vector<RowRange> blocks_with_rows(std::span<const std::int64_t> starts) {
  if (starts.empty() || starts.front() != 0 || !std::is_sorted(starts.begin(), starts.end()) ||
      starts.back() > kMostRows) {
    throw std::invalid_argument(
        "lane_order: `starts` must begin with 0, never decrease and end at most at 2^61.");
  }
  std::vector<RowRange> blocks;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    if (starts[i + 1] > starts[i]) blocks.push_back({starts[i], starts[i + 1] - starts[i]});
  }
  return blocks;
}

/// So many that each lane has several windows of blocks.
std::size_t count_lanes(std::size_t blocks, std::int64_t window) {
  constexpr std::size_t kLeast = 64;
  constexpr std::size_t kMost = 1024;
  constexpr std::size_t kWindowsALane = 4;
  const std::size_t windows = blocks / static_cast<std::size_t>(std::min(window, kMostRows));
  const std::size_t lanes = std::clamp(std::bit_floor(windows / kWindowsALane), kLeast, kMost);
  return std::max<std::size_t>(std::min(lanes, std::bit_floor(blocks)), 1);
}

std::int64_t rows_of(const std::vector<RowRange>& blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0},
                         [](std::int64_t rows, const RowRange& block) { return rows + block.rows; });
}

/// Deals blocks, each to the shortest lane, the largest first and those of one size in a random order: so
/// lanes are about equally long. The longest lanes come first.
std::vector<std::vector<RowRange>> deal(std::vector<RowRange> blocks, std::size_t lanes, std::uint64_t key) {
  const Permutation drawn(std::ssize(blocks), key);
  std::vector<RowRange> order;
  for (std::int64_t i = 0; i < drawn.size(); ++i) order.push_back(blocks[static_cast<std::size_t>(drawn(i))]);
  std::stable_sort(order.begin(), order.end(),
                   [](const RowRange& a, const RowRange& b) { return a.rows > b.rows; });
  using Lane = std::pair<std::int64_t, std::size_t>;  // its rows, and its number
  std::vector<Lane> empty;
  for (std::size_t lane = 0; lane < lanes; ++lane) empty.emplace_back(0, lane);
  std::priority_queue<Lane, std::vector<Lane>, std::greater<>> shortest(std::greater<>(), std::move(empty));
  std::vector<std::vector<RowRange>> dealt(lanes);
  for (const RowRange& block : order) {
    const auto [rows, lane] = shortest.top();
    shortest.pop();
    shortest.emplace(rows + block.rows, lane);
    dealt[lane].push_back(block);
  }
  std::stable_sort(dealt.begin(), dealt.end(),
                   [](const auto& a, const auto& b) { return rows_of(a) > rows_of(b); });
  return dealt;
}

std::vector<std::int64_t> lengths_of(const std::vector<std::vector<RowRange>>& lanes) {
  std::vector<std::int64_t> lengths;
  for (const auto& lane : lanes) lengths.push_back(rows_of(lane));
  return lengths;
}

/// The rows of `window` of `blocks` blocks that have `rows` rows.
std::int64_t rows_in_window(std::int64_t rows, std::int64_t window, std::size_t blocks) {
  if (blocks == 0) return 1;
  const auto mean = static_cast<double>(rows) / static_cast<double>(blocks);
  const double exact = mean * static_cast<double>(std::min(window, kMostRows));
  return static_cast<std::int64_t>(
      std::clamp(exact, 1.0, static_cast<double>(std::max<std::int64_t>(rows, 1))));
}

}  // namespace

LaneOrder::LaneOrder(std::span<const std::int64_t> starts, std::int64_t window, Keys keys)
    : window_(std::min(window, std::max<std::int64_t>(std::ssize(starts), 1))),
      rows_key_(mix_keys(keys.epoch, kRows)),
      turns_({0}) {
  if (window < 1) {
    throw std::invalid_argument("lane_order: `window` must be at least 1, but is " + std::to_string(window) +
                                ".");
  }
  const std::vector<RowRange> blocks = blocks_with_rows(starts);
  const auto lanes = deal(blocks, count_lanes(blocks.size(), window), mix_keys(keys.run, kDeal));
  turns_ = LaneTurns(lengths_of(lanes));
  window_rows_ = rows_in_window(size(), window, blocks.size());
  const std::uint64_t blocks_key = mix_keys(keys.epoch, kBlocks);
  for (const auto& lane : lanes) {
    first_.push_back(blocks_.size());
    const Permutation order(static_cast<std::int64_t>(lane.size()), mix_keys(blocks_key, first_.size()));
    std::int64_t rows = 0;
    for (std::int64_t i = 0; i < order.size(); ++i) {
      const RowRange& block = lane[static_cast<std::size_t>(order(i))];
      blocks_.push_back({rows + block.rows, block.begin - rows});
      rows += block.rows;
    }
  }
  first_.push_back(blocks_.size());
}

void LaneOrder::apply(std::span<std::int64_t> positions) const {
  const std::vector<LaneTurns::Turn> turns = turns_.at(positions);
  // The positions of each lane, one lane after the other.
  std::vector<std::size_t> ends(static_cast<std::size_t>(lanes()) + 1);
  for (const auto& turn : turns) ++ends[static_cast<std::size_t>(turn.lane) + 1];
  for (std::size_t lane = 1; lane < ends.size(); ++lane) ends[lane] += ends[lane - 1];
  std::vector<std::size_t> index(turns.size());
  std::vector<std::int64_t> places(turns.size());
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const std::size_t to = ends[static_cast<std::size_t>(turns[i].lane)]++;
    index[to] = i;
    places[to] = turns[i].place;
  }
  std::size_t begin = 0;
  for (std::int64_t lane = 0; lane < lanes(); ++lane) {
    const std::size_t end = ends[static_cast<std::size_t>(lane)];
    if (end > begin) find_rows(lane, std::span(places).subspan(begin, end - begin));
    begin = end;
  }
  for (std::size_t i = 0; i < index.size(); ++i) positions[index[i]] = places[i];
}

void LaneOrder::find_rows(std::int64_t lane, std::span<std::int64_t> places) const {
  WindowedPermutation(turns_.length(lane), window_rows_,
                      mix_keys(rows_key_, static_cast<std::uint64_t>(lane)))
      .apply(places);
  const auto begin = blocks_.begin() + static_cast<std::ptrdiff_t>(first_[static_cast<std::size_t>(lane)]);
  const auto end = blocks_.begin() + static_cast<std::ptrdiff_t>(first_[static_cast<std::size_t>(lane) + 1]);
  for (std::int64_t& place : places) {
    const auto block = std::upper_bound(
        begin, end, place, [](std::int64_t at, const Placed& placed) { return at < placed.end; });
    place += block->shift;
  }
}

double LaneOrder::class_variance(std::int64_t batch) const {
  if (blocks() < 2 || batch < 2) return 1;
  const auto in_lane = static_cast<double>(blocks()) / static_cast<double>(lanes());
  const double window = std::min(static_cast<double>(window_), in_lane);
  // Rows of one lane are of one block where two windows are mixed, more often at the ends of a lane.
  const double one_block = (1 + window / in_lane) / (2 * window);
  const std::int64_t whole = batch / lanes();
  const std::int64_t more = batch % lanes();  // lanes with one row more
  const auto in_one_lane = static_cast<double>(whole * (batch - lanes() + more)) / static_cast<double>(batch);
  const double together = in_one_lane * one_block;
  const double apart = (static_cast<double>(batch - 1) - together) / static_cast<double>(blocks() - 1);
  const double full = 1 - static_cast<double>(batch - 1) / static_cast<double>(std::max(size() - 1, batch));
  return (1 + together - apart) / full;
}

void LaneOrder::apply_lanes(std::span<std::int64_t> positions) const {
  const std::vector<LaneTurns::Turn> turns = turns_.at(positions);
  for (std::size_t i = 0; i < turns.size(); ++i) positions[i] = turns[i].lane;
}

}  // namespace torch_distinput
