// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/mixture_order.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "runtime/mix_keys.h"

namespace torch_distinput {
namespace {

using Side = KeyedSplit::Side;

/// Both may be `kNever`.
std::int64_t sum_or_never(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kNever : sum;
}

}  // namespace

MixtureOrder::MixtureOrder(std::vector<WeightsFromPosition> weights, std::uint64_t key)
    : weights_(std::move(weights)), key_(key), has_ended_(weights_.front().weights.size(), false) {
  begin_weights(0);
}

/// The next weights hold from `position` on.
void MixtureOrder::begin_weights(std::int64_t position) {
  const std::vector<double>& weights = weights_[begins_.size()].weights;
  begins_.push_back(
      {position, phases_.empty() ? std::vector<std::int64_t>(weights.size(), 0) : counts(position)});
  // Sums of weights must be finite, and not 0.
  const double most = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
  const auto heavier = [this](Flow a, Flow b) {
    return std::pair(at(a.node).weight, a.node) > std::pair(at(b.node).weight, b.node);
  };
  std::priority_queue<Flow, std::vector<Flow>, decltype(heavier)> open(heavier);
  for (std::size_t input = 0; input < weights.size(); ++input) {
    if (weights[input] == 0 || has_ended_[input]) continue;
    const double weight = std::max(weights[input] / most, std::numeric_limits<double>::min());
    open.push({leaf(input, weight), begins_.back().counts[input]});
  }
  const auto take = [&] {
    const Flow lightest = open.top();
    open.pop();
    return lightest;
  };
  while (open.size() > 1) {
    const Flow lighter = take();
    open.push(join(lighter, take()));
  }
  begin_phase(position, open.empty() ? Flow{kNone, 0} : open.top());
}

/// From `position` on, `root` draws. Where there is none, the next weights hold at once.
void MixtureOrder::begin_phase(std::int64_t position, Flow root) {
  phases_.push_back({position, root.node, root.count});
  if (root.node == kNone && has_more_weights()) begin_weights(position);
}

MixtureOrder::Index MixtureOrder::leaf(std::size_t input, double weight) {
  Node leaf{.weight = weight, .input = input, .split = KeyedSplit(0, 0)};
  if (!sizes_.empty()) leaf.end = sizes_[input];
  nodes_.push_back(leaf);
  return static_cast<Index>(nodes_.size()) - 1;
}

void MixtureOrder::reach(std::int64_t position) {
  while (has_more_weights() && next_weights() <= position) begin_weights(next_weights());
}

std::vector<MixtureOrder::Phase>::const_iterator MixtureOrder::phase_at(std::int64_t position) const {
  const auto after = [](std::int64_t wanted, const Phase& phase) { return wanted < phase.begin; };
  return std::prev(std::upper_bound(phases_.begin(), phases_.end(), position, after));
}

/// The root of the phase of `position`, and what passes through it before.
MixtureOrder::Flow MixtureOrder::root_at(std::int64_t position) const {
  const Phase& phase = *phase_at(position);
  return {phase.root, phase.count + (position - phase.begin)};
}

/// Makes the parent of both; what has passed through it is what has passed through them.
MixtureOrder::Flow MixtureOrder::join(Flow a, Flow b) {
  if (at(b.node).weight < at(a.node).weight) std::swap(a, b);
  const double weight = at(a.node).weight + at(b.node).weight;
  const auto index = static_cast<Index>(nodes_.size());
  Node node{.weight = weight,
            .input = 0,
            .rare = a.node,
            .common = b.node,
            .split = {at(a.node).weight / weight, mix_keys(key_, static_cast<std::uint64_t>(index))},
            .begin = a.count + b.count,
            .rare_begin = a.count,
            .common_begin = b.count};
  node.end = end_of(node);
  nodes_.push_back(node);
  return {index, node.begin};
}

/// The child of `parent` on `side`.
MixtureOrder::Flow MixtureOrder::child(Flow parent, Side side) const {
  const Node& node = at(parent.node);
  const std::int64_t dealt = parent.count - node.begin;
  const std::int64_t rare = node.split.rare_before(dealt);
  if (side == Side::kRare) return {node.rare, node.rare_begin + rare};
  return {node.common, node.common_begin + dealt - rare};
}

/// The child that gets the next element of `parent`.
MixtureOrder::Flow MixtureOrder::drawn_child(Flow parent) const {
  const Node& node = at(parent.node);
  const std::int64_t dealt = parent.count - node.begin;
  const KeyedSplit::Deal deal = node.split.deal(dealt);
  if (deal.side == Side::kRare) return {node.rare, node.rare_begin + deal.number};
  return {node.common, node.common_begin + deal.number};
}

std::int64_t MixtureOrder::end_of(const Node& node) const {
  const auto end = [&](Side side, std::int64_t begin, std::int64_t child_end) {
    if (child_end == kNever) return kNever;
    return sum_or_never(node.begin, node.split.position_of(side, child_end - begin));
  };
  return std::min(end(Side::kRare, node.rare_begin, at(node.rare).end),
                  end(Side::kCommon, node.common_begin, at(node.common).end));
}

bool MixtureOrder::ends_before(std::int64_t position) const { return root_at(position).node == kNone; }

InputOrder::Place MixtureOrder::locate(std::int64_t position) const {
  Flow here = root_at(position);
  while (!is_leaf(here.node)) here = drawn_child(here);
  return {at(here.node).input, here.count};
}

void MixtureOrder::locate_run(std::int64_t position, std::int64_t count, const Take& take) const {
  std::vector<std::int64_t> memory(2 * static_cast<std::size_t>(count));
  const std::span<std::int64_t> offsets = std::span(memory).first(static_cast<std::size_t>(count));
  const std::span<std::int64_t> scratch = std::span(memory).subspan(offsets.size());
  std::iota(offsets.begin(), offsets.end(), 0);
  for (std::int64_t begin = 0; begin < count;) {
    const auto next = std::next(phase_at(position + begin));
    const std::int64_t end = next == phases_.end() ? count : std::min(count, next->begin - position);
    deal_run(root_at(position + begin),
             offsets.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), scratch,
             take);
    begin = end;
  }
}

/// Deals the next elements of `here`, whose offsets are given, to what lies below it.
void MixtureOrder::deal_run(Flow here, std::span<std::int64_t> offsets, std::span<std::int64_t> scratch,
                            const Take& take) const {
  if (offsets.empty()) return;
  if (is_leaf(here.node)) return take(at(here.node).input, here.count, offsets);
  const Node& node = at(here.node);
  const std::size_t rare = node.split.deal_run(here.count - node.begin, offsets, scratch.data());
  const std::size_t common = offsets.size() - rare;
  std::copy_n(scratch.begin(), rare, offsets.begin() + static_cast<std::ptrdiff_t>(common));
  deal_run(child(here, Side::kCommon), offsets.first(common), scratch, take);
  deal_run(child(here, Side::kRare), offsets.subspan(common), scratch, take);
}

std::vector<std::int64_t> MixtureOrder::counts(std::int64_t position) const {
  const auto after = [](std::int64_t wanted, const Begin& begin) { return wanted < begin.position; };
  const Begin& last = *std::prev(std::upper_bound(begins_.begin(), begins_.end(), position, after));
  std::vector<std::int64_t> counts = last.counts;
  for (const End& end : ends_) {
    if (end.position >= last.position && end.position <= position) counts[end.input] = end.count;
  }
  const Flow root = root_at(position);
  if (root.node != kNone) count_below(root, counts);
  return counts;
}

void MixtureOrder::count_below(Flow here, std::vector<std::int64_t>& counts) const {
  if (is_leaf(here.node)) {
    counts[at(here.node).input] = here.count;
    return;
  }
  count_below(child(here, Side::kRare), counts);
  count_below(child(here, Side::kCommon), counts);
}

void MixtureOrder::end(std::int64_t position) {
  std::vector<Flow> others;
  Flow here = root_at(position);
  while (!is_leaf(here.node)) {
    const Flow drawn = drawn_child(here);
    const bool is_rare = drawn.node == at(here.node).rare;
    others.push_back(child(here, is_rare ? Side::kCommon : Side::kRare));
    here = drawn;
  }
  const std::size_t input = at(here.node).input;
  has_ended_[input] = true;
  ends_.push_back({position, input, here.count});
  Flow root{kNone, 0};
  for (; !others.empty(); others.pop_back())
    root = root.node == kNone ? others.back() : join(root, others.back());
  begin_phase(position, root);
}

std::int64_t MixtureOrder::end_all(std::vector<std::int64_t> sizes) {
  sizes_ = std::move(sizes);
  // Children come before their parents.
  for (Node& node : nodes_) node.end = node.rare == kNone ? sizes_[node.input] : end_of(node);
  while (phases_.back().root != kNone) {
    const Phase& last = phases_.back();
    const std::int64_t count = at(last.root).end;
    const std::int64_t position = count == kNever ? kNever : sum_or_never(last.begin, count - last.count);
    if (has_more_weights() && next_weights() <= position)
      begin_weights(next_weights());
    else if (position == kNever)
      return kNever;
    else
      end(position);
  }
  return phases_.back().begin;
}

std::int64_t MixtureOrder::sure_length(std::vector<std::int64_t> left) {
  while (has_more_weights()) begin_weights(next_weights());
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    const Phase& phase = phases_[i];
    if (phase.root == kNone) return phase.begin;
    const std::int64_t sure = sum_or_never(phase.begin, sure_length_of(phase.root, left));
    if (i + 1 == phases_.size() || sure < phases_[i + 1].begin) return sure;
    take_most(phase.root, phases_[i + 1].begin - phase.begin, left);
  }
  return 0;
}

/// The positions that `node` can pass on before an input below it may be short, under any key, where the
/// inputs have `left` elements.
std::int64_t MixtureOrder::sure_length_of(Index node, std::span<const std::int64_t> left) const {
  if (is_leaf(node)) return left[at(node).input];
  const KeyedSplit& split = at(node).split;
  return std::min(split.earliest_position_of(Side::kRare, sure_length_of(at(node).rare, left)),
                  split.earliest_position_of(Side::kCommon, sure_length_of(at(node).common, left)));
}

/// Takes from `left` the most elements that each input below `node` can give of `count`, under any key.
void MixtureOrder::take_most(Index node, std::int64_t count, std::span<std::int64_t> left) const {
  if (is_leaf(node)) {
    std::int64_t& elements = left[at(node).input];
    if (elements != kNever) elements -= count;
    return;
  }
  const KeyedSplit& split = at(node).split;
  take_most(at(node).rare, split.most_before(Side::kRare, count), left);
  take_most(at(node).common, split.most_before(Side::kCommon, count), left);
}

}  // namespace torch_distinput
