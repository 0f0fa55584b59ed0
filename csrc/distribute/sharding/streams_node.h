// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distribute/sharding/stream_cut.h"
#include "distribute/sharding/stream_states.h"

namespace torch_distinput {

/// A node that yields the elements of the streams [`start.begin`, `start.end`) of `cut`, from where `start`
/// says that they stand. A few streams are open at a time, those that have begun first, then by number; they
/// yield an element each in turn. Which element comes next follows from where the streams stand, so any set
/// of them can be continued on any rank. It has no plan. Its iterators keep `StreamStates` under the key
/// `streams`.
NodePtr streams_node(StreamCutPtr cut, StreamStates start);

}  // namespace torch_distinput
