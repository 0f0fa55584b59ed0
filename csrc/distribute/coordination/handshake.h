// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/peer_text.h"
#include "distribute/checkpoint/position_state.h"

namespace torch_distinput {

/// What a rank tells the others about an iterator before its first step. Ranks with different `facts` cannot
/// take steps together.
struct Handshake {
  /// Something that must be the same on every rank, under the name that messages use.
  struct Fact {
    std::string name;
    std::string value;
  };
  std::vector<Fact> facts;
  std::uint64_t drawn_seed = 0;  ///< rank 0's is used if no seed was given
  std::int64_t rows = 0;         ///< of the epoch before this rank's position
  SpecPtr spec = nullptr;        ///< of the elements; null: not known, or valid in its own process only
  bool lacks_type = false;       ///< may need parts without rows, but does not know their type

  /// This handshake as text, for `decode`.
  std::string encode() const;
  /// The handshake in a text. Throws PeerTextError for one that `encode` cannot have made.
  static Handshake decode(PeerTextReader reader);
};

/// The handshake of this rank. `seed_given`: the seed is the user's or a saved state's. `facts`: of the
/// caller, which are compared first. Reads a few rows of native sources.
Handshake describe_handshake(const Distribution& distribution, const EpochPosition& at, bool seed_given,
                             std::vector<Handshake::Fact> facts);

/// Throws DistributedDatasetError, the same on every rank, if `handshakes`, one of each rank, differ. It
/// names the first fact that differs (also as `disagreed_on`), the values and the ranks; or the ranks that
/// lack a type that the others cannot send.
void check_handshakes_agree(const std::vector<Handshake>& handshakes);

}  // namespace torch_distinput
