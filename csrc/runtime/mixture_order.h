// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/input_order.h"
#include "runtime/keyed_split.h"

namespace torch_distinput {

/// From position `position` of a mixture on, its inputs have these weights: finite, and not negative.
struct WeightsFromPosition {
  std::int64_t position;
  std::vector<double> weights;
};

/// Which of several inputs gives the element at each position of a mixture. A Huffman tree over the weights
/// has the inputs as leaves; each inner node deals what comes to it to its two sides by a `KeyedSplit`, so
/// that a position costs as many splits as its input lies deep, about log2(1 / its share), and each input has
/// its share of any first n positions within a few elements. When an input ends, its sibling takes the place
/// of their parent, and the nodes above split anew by the weights that are left; all other nodes go on. Where
/// the weights change, there is a new tree, in which each input goes on after its last element. Nodes are
/// never changed, so earlier positions stay known: memory is that of the trees, and one path for each input
/// that has ended.
class MixtureOrder final : public InputOrder {
 public:
  /// Inputs are not drawn while they have no weight. Where nothing is left to draw, the next weights hold
  /// before their time. REQUIRES: `weights` are of as many inputs each, the first from position 0 on, the
  /// positions of the others increase.
  MixtureOrder(std::vector<WeightsFromPosition> weights, std::uint64_t key);

  /// Goes on to `position`, at which the weights may change. REQUIRED before it is asked for, without
  /// `end_all` or `sure_length`.
  void reach(std::int64_t position);
  /// Whether nothing is drawn at `position`: all inputs that have weight have ended before.
  bool ends_before(std::int64_t position) const;
  /// REQUIRES, here and below: not `ends_before(position)`, and no input that should have ended before.
  Place locate(std::int64_t position) const override;
  void locate_run(std::int64_t position, std::int64_t count, const Take& take) const override;
  std::vector<std::int64_t> counts(std::int64_t position) const override;

  /// The input that is drawn at `position` has ended: from there on, the others are drawn in its place.
  /// REQUIRES: not before the position of an earlier call.
  void end(std::int64_t position);

  /// Ends all inputs after these numbers of elements; `kNever` for one that never ends. Returns the number of
  /// positions, or `kNever`. REQUIRES: called once, first.
  std::int64_t end_all(std::vector<std::int64_t> sizes);

  /// The number of positions before any input can run out of elements under any key, or `kNever`. REQUIRES:
  /// called once, first.
  std::int64_t sure_length(std::vector<std::int64_t> sizes);

 private:
  using Index = std::int32_t;
  static constexpr Index kNone = -1;

  /// A leaf is an input; an inner node has two children. What passes through a node is counted from the
  /// start of the mixture.
  struct Node {
    double weight;
    std::size_t input;  ///< of a leaf
    Index rare = kNone;
    Index common = kNone;
    KeyedSplit split;
    std::int64_t begin = 0;         ///< what had passed through it when it was made
    std::int64_t rare_begin = 0;    ///< the same of its rare child
    std::int64_t common_begin = 0;  ///< the same of its common child
    std::int64_t end = kNever;      ///< what passes through before one of its inputs is short of an element
  };
  /// From position `begin` on, `root` draws; `count` had passed through it before.
  struct Phase {
    std::int64_t begin;
    Index root;
    std::int64_t count;
  };
  /// `input` has ended at `position`, after `count` elements.
  struct End {
    std::int64_t position;
    std::size_t input;
    std::int64_t count;
  };
  /// What was drawn of each input before `position`, at which new weights began.
  struct Begin {
    std::int64_t position;
    std::vector<std::int64_t> counts;
  };
  /// A node and what has passed through it.
  struct Flow {
    Index node;
    std::int64_t count;
  };

  const Node& at(Index node) const { return nodes_[static_cast<std::size_t>(node)]; }
  bool is_leaf(Index node) const { return at(node).rare == kNone; }
  void begin_weights(std::int64_t position);
  void begin_phase(std::int64_t position, Flow root);
  bool has_more_weights() const { return begins_.size() < weights_.size(); }
  std::int64_t next_weights() const { return weights_[begins_.size()].position; }
  Index leaf(std::size_t input, double weight);
  std::vector<Phase>::const_iterator phase_at(std::int64_t position) const;
  Flow root_at(std::int64_t position) const;
  void deal_run(Flow here, std::span<std::int64_t> offsets, std::span<std::int64_t> scratch,
                const Take& take) const;
  Flow join(Flow a, Flow b);
  Flow child(Flow parent, KeyedSplit::Side side) const;
  Flow drawn_child(Flow parent) const;
  std::int64_t end_of(const Node& node) const;
  void count_below(Flow here, std::vector<std::int64_t>& counts) const;
  std::int64_t sure_length_of(Index node, std::span<const std::int64_t> left) const;
  void take_most(Index node, std::int64_t count, std::span<std::int64_t> left) const;

  std::vector<WeightsFromPosition> weights_;
  std::uint64_t key_;
  std::vector<Node> nodes_;
  std::vector<Phase> phases_;
  std::vector<Begin> begins_;  ///< one for each entry of `weights_` that holds or has held
  std::vector<End> ends_;
  std::vector<bool> has_ended_;      ///< one for each input
  std::vector<std::int64_t> sizes_;  ///< of the inputs, where they are known
};

}  // namespace torch_distinput
