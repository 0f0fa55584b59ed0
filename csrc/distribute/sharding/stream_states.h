// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "torch_distinput/state.h"

namespace torch_distinput {

/// Where the streams that one rank reads stand. A value.
struct StreamStates {
  /// A stream that has yielded an element and not ended.
  struct Begun {
    std::int64_t turn = 0;  ///< the number of the element that it yielded last, among those of its rank
    State state = {};       ///< of its iterator
    std::vector<std::int64_t> sampled = {};  ///< drawn from each dataset of its mixture; empty without one
  };

  std::int64_t count = 0;  ///< streams of all ranks
  std::int64_t begin = 0;  ///< the rank's are [begin, end)
  std::int64_t end = 0;
  std::int64_t turns = 0;  ///< elements that its streams have yielded so far
  std::set<std::int64_t> ended = {};
  std::map<std::int64_t, Begun> begun = {};
  std::vector<std::int64_t> sampled = {};  ///< as in `Begun`, by the streams that have ended

  /// What all these streams have drawn from each dataset of their mixture; empty without one.
  std::vector<std::int64_t> all_sampled() const;
  /// A state for `read_streams`: the streams that have ended as ranges, and those that have begun.
  State write() const;
};

/// What `write` wrote. `reader` begins messages. Throws c10::ValueError for a damaged state.
StreamStates read_streams(const State& state, std::string_view reader);

}  // namespace torch_distinput
