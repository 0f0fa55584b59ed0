// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/excluded_rows.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/excluding_node.h"
#include "execution/scheduled_batches.h"
#include "execution/yields_batches.h"

namespace torch_distinput {
namespace {

/// Whether element i of `node` is made of element i of its only input.
bool keeps_places(const Node& node) {
  const Traits traits = node.traits();
  const bool one_for_one = traits.rows.follows == Follows::kEach || traits.rows.follows == Follows::kSame;
  return node.inputs().size() == 1 && one_for_one && !traits.order.keeps;
}

/// The op that batches the rows of `last`; null where its elements are no batches.
const Node* batching_op(const Node& last) {
  const Node* node = &last;
  while (yields_batches(*node)) {
    if (dynamic_cast<const SchedulesBatches*>(node) != nullptr) return node;
    node = node->inputs().front().get();
  }
  return nullptr;
}

NodePtr excluding(NodePtr rows, const std::vector<ExcludedRows>& excluded, std::int64_t epoch) {
  for (const ExcludedRows& entry : excluded) {
    if (entry.epoch > epoch) break;
    rows = excluding_node(std::move(rows), entry.epoch == epoch ? entry.position : 0, entry.rows);
  }
  return rows;
}

}  // namespace

NodePtr without_rows(const NodePtr& last, const std::vector<ExcludedRows>& excluded, std::int64_t epoch,
                     std::string_view call) {
  if (excluded.empty()) return last;
  if (!yields_batches(*last)) return excluding(last, excluded, epoch);
  const bool batches = dynamic_cast<const SchedulesBatches*>(last.get()) != nullptr;
  TORCH_CHECK_VALUE(
      batches || keeps_places(*last), call, ": `", last->name(),
      "` after batching yields other batches, or in other places; move that op before `batch`.");
  NodePtr input = last->inputs().front();
  input = batches ? excluding(std::move(input), excluded, epoch) : without_rows(input, excluded, epoch, call);
  return last->with_inputs({std::move(input)});
}

std::int64_t batched_before(const Node& last, std::int64_t element, std::int64_t rows) {
  const Node* const op = batching_op(last);
  if (op == nullptr) return element + rows;
  const BatchSchedulePtr sizes = dynamic_cast<const SchedulesBatches*>(op)->changing_sizes();
  return rows + (sizes ? sizes->first_row(element) : element * op->batch_size().value());
}

void check_excluded(std::string_view call, const std::vector<std::int64_t>& rows, std::int64_t size) {
  for (const std::int64_t row : rows) {
    TORCH_CHECK_VALUE(row >= 0 && row < size, call, ": `rows` must be at least 0 and less than ", size,
                      ", the number of rows of the sources, but one is ", row, ".");
  }
}

std::vector<ExcludedRows> with_exclusion(std::vector<ExcludedRows> before, ExcludedRows added) {
  std::vector<std::int64_t>& rows = added.rows;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  if (!rows.empty()) before.push_back(std::move(added));
  return before;
}

State::List state_of(const std::vector<ExcludedRows>& excluded) {
  State::List entries;
  for (const ExcludedRows& entry : excluded) {
    State::List fields;
    fields.emplace_back(entry.epoch);
    fields.emplace_back(entry.position);
    fields.emplace_back(State::List(entry.rows.begin(), entry.rows.end()));
    entries.emplace_back(std::move(fields));
  }
  return entries;
}

std::vector<ExcludedRows> excluded_rows_in(const State& state, std::string_view call) {
  const StateReader saved(state, call);
  if (!saved.has(kExcludedRows)) return {};
  std::vector<ExcludedRows> excluded;
  for (const State& entry : saved.list(kExcludedRows)) {
    const State::List& fields = entry.as_list();
    TORCH_CHECK_VALUE(fields.size() == 3, call,
                      ": an entry of the saved `excluded` must be an epoch, a position and rows, but is ",
                      brief(entry), ".");
    ExcludedRows read{fields[0].as_int(), fields[1].as_int(), {}};
    const auto at = std::pair(read.epoch, read.position);
    const auto least = excluded.empty() ? std::pair<std::int64_t, std::int64_t>()
                                        : std::pair(excluded.back().epoch, excluded.back().position);
    TORCH_CHECK_VALUE(
        at >= least && read.position >= 0 && read.epoch <= kMaxEpochs && read.position <= kMaxCounted, call,
        ": the positions of the saved `excluded` must not decrease from 0 on, but one is ", read.position,
        " of epoch ", read.epoch, ".");
    for (const State& row : fields[2].as_list()) read.rows.push_back(row.as_int());
    const std::vector<std::int64_t>& rows = read.rows;
    const auto falls = std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>());
    TORCH_CHECK_VALUE(!rows.empty() && rows.front() >= 0 && falls == rows.end(), call,
                      ": the rows of the saved `excluded` must be at least 0 and increase.");
    excluded.push_back(std::move(read));
  }
  return excluded;
}

}  // namespace torch_distinput
