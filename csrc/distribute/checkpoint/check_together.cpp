// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/checkpoint/check_together.h"

#include <string_view>

#include <c10/util/Exception.h>

#include "core/state_reader.h"

namespace torch_distinput {

void check_together(const std::vector<State>& states, const char* reader,
                    const std::function<std::string(const State&)>& name) {
  for (const State& state : states) {
    for (const char* field : {"epoch", "step", "seed"}) {
      // Before the first step no seed was agreed on; rank 0's is used then.
      const State& here = StateReader(state, reader).at(field);
      const State& first = StateReader(states.front(), reader).at(field);
      if (state.at("step") == State(0) && std::string_view(field) == "seed") continue;
      TORCH_CHECK_VALUE(here == first, reader, ": the states must be saved after the same step, but `", field,
                        "` is ", brief(first), " in that of ", name(states.front()), " and ", brief(here),
                        " in that of ", name(state), ".");
    }
  }
}

}  // namespace torch_distinput
