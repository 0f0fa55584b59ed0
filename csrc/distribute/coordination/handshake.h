// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distribute/checkpoint/position_state.h"

namespace torch_distinput {

/// What a rank says about an iterator before its first step. Ranks whose `facts` differ cannot go on
/// together.
struct Handshake {
  struct Fact {
    std::string name;
    std::string value;
  };
  std::vector<Fact> facts;
  std::uint64_t drawn_seed = 0;  ///< rank 0's is used where no seed was given
  std::int64_t rows = 0;         ///< of the epoch before this rank's position
  SpecPtr spec = nullptr;        ///< of the elements; null: not known, or of no meaning elsewhere
  bool lacks_type = false;       ///< may have to make up parts whose type it does not know

  std::string encode() const;
  /// REQUIRES: made by `encode`.
  static Handshake decode(const std::string& text);
};

/// What this rank has to say. `seed_given`: the seed is the user's or a saved state's. Reads a few rows of
/// native sources.
Handshake describe_handshake(const Distribution& distribution, const EpochPosition& at, bool seed_given);

/// Throws DistributedDatasetError, the same on every rank, naming the first fact in which they differ, the
/// values and the ranks, or those that lack a type which the others cannot send. `handshakes`: one of each
/// rank.
void check_handshakes_agree(const std::vector<Handshake>& handshakes);

}  // namespace torch_distinput
