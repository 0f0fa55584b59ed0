// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// `Plan::size` of a dataset that never ends.
inline constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();
/// `Plan::rows` where only the data can tell.
inline constexpr std::int64_t kUnknownRows = -1;

/// One dense leaf of one row: its dtype, dims and size.
struct LeafLayout {
  c10::ScalarType dtype;
  Dims shape;
  std::int64_t bytes;
};

/// Rows whose leaves are all dense and of one static shape: such rows can be
/// written straight into a batch.
struct RowLayout {
  StructurePtr structure;
  std::vector<LeafLayout> leaves;
};

/// Where the rows of one leaf go: row i is at `data + i * row_bytes`.
struct RowSink {
  char* data;
  std::int64_t row_bytes;
};

/// Rows [begin, end) along dim 0 of element `element`.
struct Segment {
  std::int64_t element;
  std::int64_t begin;
  std::int64_t end;
  bool operator==(const Segment&) const = default;
};

/// What a runner has to know about a plan.
struct PlanTraits {
  bool runs_user_code = false;          ///< runs callables that may block (Python): never on the arena
  bool blocks = false;                  ///< waits for files: on threads of its own, never on the arena
  std::int64_t num_parallel_calls = 0;  ///< parallel calls asked for; 0: none asked for
  std::int64_t read_ahead = -1;         ///< elements to read ahead asked for by `prefetch`; -1: not asked
};

/// Random access to the elements of a node for one epoch: index arithmetic and
/// a chain of fetches over whole arrays of positions, one virtual call an op and
/// batch. Immutable after construction; all methods may be called from many
/// threads at once. Positions are in [0, size()). Methods throw what the op
/// throws; nothing is lost by that, the same call may be made again.
class TDI_API Plan {
 public:
  virtual ~Plan();

  /// Number of elements, or `kEndless`.
  virtual std::int64_t size() const = 0;
  virtual PlanTraits traits() const { return {}; }

  /// The layout of an element, when elements have a static dense one; else null.
  virtual const RowLayout* layout() const { return nullptr; }
  /// Writes element `positions[i]` to row `slots[i]` of each sink, or to row i
  /// when `slots` is empty. `positions` is scratch: its contents are unspecified
  /// afterwards. REQUIRES: `layout() != nullptr`, one sink a leaf.
  virtual void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
                      std::span<const RowSink> sinks) const;
  /// The elements at `positions` (scratch, as in gather), in that order.
  virtual std::vector<Element> fetch(std::span<std::int64_t> positions) const = 0;

  /// Whether `fetch_batch` works: where elements have no layout, but many of them
  /// can be made as one column.
  virtual bool fetches_batches() const { return false; }
  /// The elements at `positions` (scratch, as in gather, and not empty) as the rows
  /// of one element. REQUIRES: `fetches_batches()`.
  virtual Element fetch_batch(std::span<std::int64_t> positions) const;

  /// Rows along dim 0 of the element at `position`, the same for all leaves;
  /// `kUnknownRows` where only the data can tell. Either known for all or for none.
  virtual std::int64_t rows(std::int64_t position) const;
  /// Sum of `rows(e)` over all e < `position`. The default adds them up.
  virtual std::int64_t rows_before(std::int64_t position) const;
  /// The rows that `segments` name, in order, as one element. The default
  /// fetches whole elements, cuts and joins them; a batch gathers just the rows.
  virtual Element take_rows(std::span<const Segment> segments) const;
};
using PlanPtr = std::shared_ptr<const Plan>;

}  // namespace torch_distinput
