// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/keyed_split.h"

namespace torch_distinput {

/// Which of several inputs gives the element at each position of a mixture. A Huffman tree over the weights
/// has the inputs as leaves; each inner node deals what comes to it to its two sides by a `KeyedSplit`, so
/// that a position costs as many splits as its input lies deep, about log2(1 / its share), and each input has
/// its share of any first n positions within a few elements. When an input ends, its sibling takes the place
/// of their parent, and the nodes above split anew by the weights that are left; all other nodes go on. Nodes
/// are never changed, so earlier positions stay known: memory is that of the tree, and one path for each
/// input that has ended.
class MixtureOrder {
 public:
  /// Element `number` of input `input`.
  struct Place {
    std::size_t input;
    std::int64_t number;
    bool operator==(const Place&) const = default;
  };

  /// Inputs without weight are never drawn. REQUIRES: weights that are finite and not negative.
  MixtureOrder(std::span<const double> weights, std::uint64_t key);

  /// Whether all inputs of weight above 0 have ended before `position`.
  bool ends_before(std::int64_t position) const;
  /// What is drawn at `position`. REQUIRES: not `ends_before(position)`, and no input that should have ended
  /// before.
  Place locate(std::int64_t position) const;
  /// `input` gives its elements from `first` on to the positions at `offsets`, which increase.
  using Take =
      std::function<void(std::size_t input, std::int64_t first, std::span<const std::int64_t> offsets)>;
  /// Locates the positions [`position`, `position` + `count`) together: calls `take` with offsets from
  /// `position`, usually once for each input. REQUIRES: as for `locate`, of each of them.
  void locate_run(std::int64_t position, std::int64_t count, const Take& take) const;
  /// What was drawn from each input before `position`.
  std::vector<std::int64_t> counts(std::int64_t position) const;

  /// The input that is drawn at `position` has ended: from there on, the others are drawn in its place.
  /// REQUIRES: not before the position of an earlier call.
  void end(std::int64_t position);

  /// Ends all inputs after these numbers of elements; `kNever` for one that never ends. Returns the number of
  /// positions, or `kNever`.
  std::int64_t end_all(std::span<const std::int64_t> sizes);

  /// The number of positions before any input can run out of elements under any key, or `kNever`.
  std::int64_t sure_length(std::span<const std::int64_t> sizes) const;

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
  /// A node and what has passed through it.
  struct Flow {
    Index node;
    std::int64_t count;
  };

  const Node& at(Index node) const { return nodes_[static_cast<std::size_t>(node)]; }
  bool is_leaf(Index node) const { return at(node).rare == kNone; }
  std::vector<Phase>::const_iterator phase_at(std::int64_t position) const;
  Flow root_at(std::int64_t position) const;
  void deal_run(Flow here, std::span<std::int64_t> offsets, std::span<std::int64_t> scratch,
                const Take& take) const;
  Flow join(Flow a, Flow b);
  Flow child(Flow parent, KeyedSplit::Side side) const;
  Flow drawn_child(Flow parent) const;
  std::int64_t end_of(const Node& node) const;
  void count_below(Flow here, std::vector<std::int64_t>& counts) const;
  std::int64_t sure_length_of(Index node, std::span<const std::int64_t> sizes) const;

  std::uint64_t key_;
  std::vector<Node> nodes_;
  std::vector<Phase> phases_;
  std::vector<std::int64_t> ended_;  ///< the elements of inputs that have ended, else 0
};

}  // namespace torch_distinput
