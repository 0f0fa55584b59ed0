// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "ops/tokens/document_lengths.h"
#include "ops/tokens/packed_rows.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// How well documents fill rows.
struct PackFill {
  std::int64_t tokens = 0;         ///< of all documents
  std::int64_t documents_cut = 0;  ///< documents that lie in several rows
};

/// Which pieces of which documents make each row of one epoch, found from the lengths of documents alone.
/// What an input without end needs is found when it is asked for. Safe from any thread.
class PackIndex {
 public:
  virtual ~PackIndex() = default;

  /// Number of rows, or `kEndless`.
  virtual std::int64_t size() const = 0;
  /// Takes the pieces of row `rows[i]`, in their order; each has at least one token.
  using TakePieces = std::function<void(std::size_t i, std::span<const Segment> pieces)>;
  /// Calls `take` for each of `rows`, in that order. Rows that follow each other cost the least.
  virtual void pieces(std::span<const std::int64_t> rows, const TakePieces& take) const = 0;
  /// The number of first documents on which the rows before row `row`, which is in [0, size()], depend.
  virtual std::int64_t documents_drawn(std::int64_t row) const = 0;
  /// REQUIRES: `size()` is not `kEndless`.
  virtual PackFill fill() const = 0;
};
using PackIndexPtr = std::shared_ptr<const PackIndex>;

/// Documents one after the other, cut where a row is full. Keeps 16 bytes for each 64 documents.
PackIndexPtr greedy_index(DocumentLengths documents, const PackArguments& packing);
/// Windows of documents, each packed for itself. Keeps 8 bytes for each window, and the pieces of windows
/// that were used last; others are packed again.
PackIndexPtr best_fit_index(DocumentLengths documents, const PackArguments& packing);

}  // namespace torch_distinput
