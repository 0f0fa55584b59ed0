// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distribute/checkpoint/position_state.h"

namespace torch_distinput {

/// What a rank tells the others about an iterator before its first step. Ranks with different `facts` cannot
/// take steps together.
struct Handshake {
  /// Something that must be the same on every rank, under the name that messages use.
  struct Fact {
    std::string name;
    std::string value;

    bool operator==(const Fact&) const = default;
  };
  /// The fact that is `kUnknown` on a rank that has no data to learn it from. That agrees with every value.
  static constexpr const char* kType = "type of the elements";
  static constexpr const char* kUnknown = "unknown";

  std::vector<Fact> facts;
  std::uint64_t drawn_seed = 0;  ///< rank 0's is used if no seed was given
  std::int64_t rows = 0;         ///< of this rank's own stream before its position
  SpecPtr spec = nullptr;        ///< of the elements; null: not known, or valid in its own process only
  bool lacks_type = false;       ///< may need parts without rows, but does not know their type
};

/// The handshake of this rank. `seed_given`: the seed is the user's or a saved state's. `facts`: of the
/// caller, which are compared first. Reads a few rows of native sources; none
/// without `with_rows`, which all ranks must have or not.
Handshake describe_handshake(const Distribution& distribution, const EpochPosition& at, bool seed_given,
                             std::vector<Handshake::Fact> facts, bool with_rows);

}  // namespace torch_distinput
