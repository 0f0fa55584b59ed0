// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "torch_distinput/node.h"
#include "torch_distinput/state.h"

namespace torch_distinput {

/// What must be equal for a saved position of `node` to be valid: the `identity` of each op, from the sources
/// to `node`, as a list of strings. The size of the last `batch` is left out where nothing after it depends
/// on it.
State pipeline_identity(const NodePtr& node);

/// Throws c10::ValueError naming the ops that differ between a saved identity and this pipeline's; where one
/// of them has more ops, the first.
void check_identity(const State& saved, const State& current);

/// A kind of saved position, and the newest version of it.
struct PositionKind {
  const char* name;
  std::int64_t version;
};

/// The fields with which a saved position of `node` begins.
State position_header(const PositionKind& kind, const NodePtr& node);

/// Throws c10::ValueError for a state that does not begin as a saved position of `kind`, is of a newer
/// version, was saved with another shuffle order, or is of another pipeline than `node` (it names the
/// difference). `reader` begins the messages.
void check_header(const State& state, const PositionKind& kind, const NodePtr& node, std::string_view reader);

}  // namespace torch_distinput
