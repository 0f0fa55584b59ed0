// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "comm/peer_text.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// What some ranks know of the type of the elements: the spec of the lowest rank that knows one which other
/// processes understand, and the dims that probes saw. `join` is associative and commutative.
class SpecSummary {
 public:
  SpecSummary() = default;
  /// What one rank knows. `spec` may be null.
  static SpecSummary of(int rank, const SpecPtr& spec);
  /// Adds what the ranks of `other` know.
  void join(const SpecSummary& other);

  /// Whether a rank knows the spec.
  bool known() const noexcept { return spec_ != nullptr; }
  /// `own`, completed. The lowest rank that knows it provides what `own` lacks: the whole spec, or the dims
  /// that a probe saw where declared dims are unknown. Null if no rank knows the spec.
  SpecPtr complete(const SpecPtr& own) const;

  void encode(PeerTextWriter& text) const;
  /// The summary that comes next in `text`, of some of `group` ranks. Throws PeerTextError for one that
  /// `encode` cannot have made.
  static SpecSummary decode(PeerTextReader& text, int group);

 private:
  struct Seen {
    int rank;
    Dims dims;
  };
  void learn(std::pair<std::size_t, std::size_t> place, const Seen& seen);
  Dims find_dims(const TensorSpec& spec, std::size_t leaf) const;

  SpecPtr spec_;  // null: no rank knows it
  int rank_ = 0;  // which provides `spec_`
  // By leaf and number of dims: what the lowest rank saw.
  std::map<std::pair<std::size_t, std::size_t>, Seen> seen_;
};

}  // namespace torch_distinput
