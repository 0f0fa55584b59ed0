// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/merge_steps.h"

#include <optional>
#include <utility>

#include <c10/util/Exception.h>

#include "kernels/rows.h"

namespace torch_distinput {
namespace {

constexpr const char* kMergeStepsName = "distribute_dataset: `tail` \"merge\"";

Element join_parts(const std::vector<BuiltStep>& steps) {
  std::vector<Element> parts;
  for (const BuiltStep& step : steps) {
    for (const Element& part : step.parts) {
      if (part.rows() != 0) parts.push_back(part);
    }
  }
  return concat_rows(parts, kMergeStepsName);
}

}  // namespace

BuiltStep merge_steps(std::vector<BuiltStep> steps, const Splitter& splitter) {
  const Element rows = join_parts(steps);
  const std::optional<std::int64_t> count = rows.rows();
  TORCH_CHECK_VALUE(count.has_value(), kMergeStepsName,
                    ": leaves with different numbers of rows cannot be dealt out anew.");
  // Every rank counts one step, whether it merged two or had only one left.
  Start after = steps.back().after;
  after.position.step = steps.front().after.position.step;
  BuiltStep merged = std::move(steps.front());
  merged.after = std::move(after);
  merged.staged.clear();
  merged.info.valid = splitter.shares_for_all(*count, std::ssize(merged.parts));
  merged.info.has_value.assign(merged.parts.size(), true);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < merged.parts.size(); ++i) {
    const std::int64_t end = begin + merged.info.valid[i];
    merged.parts[i] = slice_rows(rows, begin, end, kMergeStepsName);
    begin = end;
  }
  return merged;
}

}  // namespace torch_distinput
