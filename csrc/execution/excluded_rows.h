// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "torch_distinput/node.h"
#include "torch_distinput/state.h"

namespace torch_distinput {

/// Source rows that a user has excluded while a pipeline is read: in `epoch` from a position on, and in all
/// later epochs.
struct ExcludedRows {
  std::int64_t epoch;
  /// Of the rows that are batched, counted without those excluded before.
  std::int64_t position;
  std::vector<std::int64_t> rows;  ///< numbers as `Plan::source_rows` has them, increasing
};

/// The pipeline up to `last` in epoch `epoch`, without the elements that have excluded rows: its batches are
/// filled with the rows that follow. Elements are left out before they are batched, or as they come where
/// nothing batches them. Throws c10::ValueError naming `call` and an op after which the batch of a position
/// is another one.
NodePtr without_rows(const NodePtr& last, const std::vector<ExcludedRows>& excluded, std::int64_t epoch,
                     std::string_view call);

/// The position before element `element` of `last`, of which `rows` rows are handed out, as
/// `ExcludedRows` counts. REQUIRES: as `without_rows`.
std::int64_t batched_before(const Node& last, std::int64_t element, std::int64_t rows);

/// Throws c10::ValueError naming `call` unless all `rows` are in [0, `size`).
void check_excluded(std::string_view call, const std::vector<std::int64_t>& rows, std::int64_t size);

/// `before`, and `added`, whose rows may be in any order. REQUIRES: no entry is of a later position.
std::vector<ExcludedRows> with_exclusion(std::vector<ExcludedRows> before, ExcludedRows added);

/// The entry of a saved position with rows that were excluded.
inline constexpr const char* kExcludedRows = "excluded";
State::List state_of(const std::vector<ExcludedRows>& excluded);
/// What the position `state` has of them; none without the entry. Throws c10::ValueError naming `call` for
/// other values than `state_of` returns.
std::vector<ExcludedRows> excluded_rows_in(const State& state, std::string_view call);

}  // namespace torch_distinput
