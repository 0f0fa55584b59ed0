// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/batch_schedule.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// An op that makes batches whose sizes may change with their number.
class SchedulesBatches {
 public:
  virtual ~SchedulesBatches() = default;
  /// The sizes of its batches; null where they all have one size.
  virtual BatchSchedulePtr changing_sizes() const = 0;
  /// The same op over `input`, whose batches have `size` rows.
  virtual NodePtr with_batch_size(NodePtr input, std::int64_t size) const = 0;
};

/// Whether the elements of `node` are batches of changing sizes, of which some op after the one that makes
/// them may have left out or moved some.
bool has_changing_batches(const Node& node);

/// The sizes of the elements of `node` by number, where `has_changing_batches` and each batch is still in its
/// place; else null.
BatchSchedulePtr schedule_of(const Node& node);

}  // namespace torch_distinput
