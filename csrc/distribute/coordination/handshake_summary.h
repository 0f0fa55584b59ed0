// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/peer_text.h"
#include "comm/rank_ranges.h"
#include "distribute/coordination/handshake.h"
#include "distribute/coordination/spec_summary.h"

namespace torch_distinput {

/// The handshakes of some ranks, each distinct one once, so that the handshakes of a group that agrees reduce
/// to the text of one. `join` is associative and commutative; only which ranks are left out may depend on its
/// order, if the handshakes are more than `kMaxDistinct`.
class HandshakeSummary {
 public:
  /// Limit on the distinct descriptions that are kept: those of the lowest ranks.
  static constexpr std::size_t kMaxDistinct = 16;

  /// What some ranks have in common.
  struct Description {
    std::vector<Handshake::Fact> facts;
    bool lacks_type;
    RankRanges ranks;
  };

  /// The summary of one rank's handshake.
  static HandshakeSummary of(int rank, const Handshake& handshake);
  /// Adds the ranks of `other`. REQUIRES: they are others.
  void join(const HandshakeSummary& other);

  /// By their lowest ranks.
  const std::vector<Description>& descriptions() const noexcept { return descriptions_; }
  /// Number of ranks with descriptions that are not kept.
  std::int64_t left_out() const noexcept { return left_out_; }
  std::int64_t ranks() const noexcept;
  /// The lowest rank's. If no seed was given, all ranks use it.
  std::uint64_t drawn_seed() const noexcept { return drawn_seed_; }
  /// Rows of the epoch before the positions of all ranks.
  std::int64_t rows() const noexcept { return rows_; }
  const SpecSummary& spec() const noexcept { return spec_; }

  std::string encode() const;
  /// The summary in a text, of some of `group` ranks. Throws PeerTextError for one that `encode` cannot have
  /// made.
  static HandshakeSummary decode(PeerTextReader reader, int group);

 private:
  void add(const Description& description);

  std::vector<Description> descriptions_;
  std::int64_t left_out_ = 0;
  std::uint64_t drawn_seed_ = 0;
  std::int64_t rows_ = 0;
  SpecSummary spec_;
};

/// Joins `texts` of summaries. `whose`: as in PeerTextReader. Throws PeerTextError.
std::string join_handshakes(const std::vector<std::string>& texts, int group, const std::string& whose);
/// The summary in a join of the texts of all of `group` ranks. Throws PeerTextError.
HandshakeSummary handshakes_of_all(const std::string& joined, int group, const std::string& whose);

/// Throws DistributedDatasetError, the same on every rank, if the handshakes in `all` differ. It names the
/// first fact that differs (also as `disagreed_on`), the values and the ranks; or the ranks that lack a type
/// that the others cannot send.
void check_handshakes_agree(const HandshakeSummary& all);

}  // namespace torch_distinput
