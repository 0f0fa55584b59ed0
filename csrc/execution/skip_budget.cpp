// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/skip_budget.h"

#include <exception>
#include <utility>

#include <c10/util/Exception.h>

#include "base/counters.h"
#include "core/message_of.h"
#include "core/state_reader.h"
#include "execution/execution_context.h"

namespace torch_distinput {
namespace {

/// Rows from which a fraction is checked while more rows may come: with fewer it says too little.
constexpr std::int64_t kFractionFrom = 100;

/// The message of the exception being handled. One that is not a std::exception is not the failure of a row
/// (`Stopped`): it is thrown on.
std::string current_message() {
  try {
    throw;
  } catch (const std::exception&) {
    return message_of(std::current_exception());
  }
}

}  // namespace

SkipBudget::SkipBudget(const IterContext& context, std::string op)
    : op_(std::move(op)),
      skip_(context.execution->options.skip),
      counters_(context.execution->counters),
      is_part_(context.is_part) {}

void SkipBudget::fail(std::int64_t rows) {
  if (!skip_) throw;
  last_error_ = current_message();
  seen_ += rows;
  skipped_ += rows;
  counters_->skipped.add(rows);
  check_count();
  if (seen_ >= kFractionFrom) check_fraction();
}

void SkipBudget::end() const {
  if (skip_ && !is_part_) check_fraction();
}

void SkipBudget::check_count() const {
  const bool too_many = skip_->max_count && skipped_ > *skip_->max_count;
  TORCH_CHECK_VALUE(!too_many, op_, ": ", skipped_,
                    " rows failed, but Skip(max_count=", skip_->max_count.value_or(0), ")", ending());
}

void SkipBudget::check_fraction() const {
  const bool too_often = skip_->max_fraction &&
                         static_cast<double>(skipped_) > *skip_->max_fraction * static_cast<double>(seen_);
  TORCH_CHECK_VALUE(!too_often, op_, ": ", skipped_, " of ", seen_,
                    " rows failed, but Skip(max_fraction=", skip_->max_fraction.value_or(0), ")", ending());
}

std::string SkipBudget::ending() const {
  return " allows no more." + (last_error_.empty() ? "" : " The last error: " + last_error_);
}

State SkipBudget::save() const {
  if (!skip_) return {};
  return State().set("seen", seen_).set("skipped", skipped_);
}

void SkipBudget::load(const State& state) {
  seen_ = skipped_ = 0;
  last_error_.clear();
  if (state.is_null()) return;
  const StateReader saved(state, op_);
  seen_ = saved.count("seen");
  skipped_ = saved.count("skipped", seen_);
}

}  // namespace torch_distinput
