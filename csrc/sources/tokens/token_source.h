// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "sources/tokens/token_values.h"
#include "torch_distinput/plan.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

class BufferPool;

/// Rows of tokens as they are stored. Safe from any thread.
class StoredTokens {
 public:
  virtual ~StoredTokens() = default;

  /// Number of rows.
  virtual std::int64_t size() const = 0;
  /// Whether reading rows may wait for files.
  virtual bool blocks() const = 0;
  /// Whether rows come over a network.
  virtual bool is_remote() const = 0;
  /// As `Plan::source_row`.
  virtual SourceRow source_row(std::int64_t position) const = 0;
  /// Tokens of row `position`.
  virtual std::int64_t length(std::int64_t position) const = 0;
  /// The tokens that `pieces` name will be read soon: servers are asked for them. Does not wait for their
  /// bytes.
  virtual void will_read(std::span<const Segment> pieces) const = 0;

  /// Takes piece `i` of a read, `count` tokens that are valid during the call. Returns -1, or the index of a
  /// token that is out of range.
  using TakePiece = std::function<std::int64_t(std::size_t i, const char* tokens, std::int64_t count)>;
  /// Calls `take` for the tokens [begin, end) of each row that `pieces` name, in order. Throws
  /// InvalidArgumentError that names the place of a token that is out of range, `limit`.
  virtual void read(std::span<const Segment> pieces, std::int64_t limit, const TakePiece& take) const = 0;
};

/// The type of elements: pairs of inputs and targets of `sequence_length` tokens, or whole documents.
SpecPtr token_spec(std::optional<std::int64_t> sequence_length, c10::ScalarType dtype);

/// Random access to elements made of `tokens`, whose rows have `sequence_length` + 1 tokens, or are
/// documents. Of documents, pieces can be read. A batch is one block of memory, and its inputs and targets
/// are two views of it.
PlanPtr token_plan(std::shared_ptr<const StoredTokens> tokens, TokenConversion conversion,
                   std::optional<std::int64_t> sequence_length, std::shared_ptr<BufferPool> pool);

}  // namespace torch_distinput
