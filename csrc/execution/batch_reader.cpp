// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/batch_reader.h"

#include <utility>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/any_op.h"
#include "kernels/dense.h"

namespace torch_distinput {
namespace {

[[noreturn]] void refuse_scalar(const Structure& structure, std::size_t leaf, std::string_view op) {
  C10_THROW_ERROR(ValueError, c10::str(op, ": ", leaf_name(structure, leaf),
                                       " is a scalar, but must have rows along dim 0; call batch first."));
}

[[noreturn]] void refuse_sizes(const Structure& structure, std::int64_t first, std::size_t leaf,
                               std::int64_t rows, std::string_view op) {
  C10_THROW_ERROR(ValueError, c10::str(op, ": all leaves must have the same number of rows, but ",
                                       leaf_name(structure, 0), " has ", first, " and ",
                                       leaf_name(structure, leaf), " has ", rows, "."));
}

/// Rows of a batch. Throws c10::ValueError where its leaves do not have one number of rows.
std::int64_t count_rows(const Element& batch, std::string_view op) {
  if (const auto rows = batch.rows()) return *rows;
  const ElementSpec spec = spec_of(batch);
  TORCH_CHECK_VALUE(!spec.leaves.empty(), op, ": an element without leaves has no rows.");
  check_batch_spec(spec, op);
  TORCH_INTERNAL_ASSERT(false, "an element without rows that has a batch's spec");
}

}  // namespace

SpecPtr quiet_spec(const Node& node) { return may_fail(node) ? nullptr : node.spec(); }

void check_batches(const Node& input, std::string_view op) {
  if (const SpecPtr spec = quiet_spec(input)) check_batch_spec(*spec, op);
}

void check_batch_spec(const ElementSpec& spec, std::string_view op) {
  std::optional<std::int64_t> rows;
  for (std::size_t leaf = 0; leaf < spec.leaves.size(); ++leaf) {
    const auto size = dim0(spec.leaves[leaf]);
    if (!size) refuse_scalar(*spec.structure, leaf, op);
    if (*size == kUnknownDim) continue;
    if (rows && *rows != *size) refuse_sizes(*spec.structure, *rows, leaf, *size, op);
    rows = size;
  }
}

BatchReader::BatchReader(IteratorPtr input, std::string_view op) : input_(std::move(input)), op_(op) {}

bool BatchReader::read() {
  State before = input_->save();
  std::optional<Element> batch = input_->next();
  if (!batch) return false;
  rows_ = count_rows(*batch, op_);
  row_ = 0;
  batch_ = std::move(batch);
  before_ = std::move(before);
  return true;
}

std::int64_t BatchReader::advance(std::int64_t count) {
  const std::int64_t row = row_;
  row_ += count;
  return row;
}

State BatchReader::save() const {
  return State().set("input", batch_ ? before_ : input_->save()).set("row", batch_ ? State(row_) : State());
}

void BatchReader::load(const State& state) {
  const StateReader saved(state, op_);
  const bool in_batch = !saved.at("row").is_null();
  const std::int64_t row = in_batch ? saved.count("row") : 0;
  input_->load(saved.at("input"));
  batch_.reset();
  rows_ = row_ = 0;
  if (!in_batch) return;
  TORCH_CHECK_VALUE(read(), op_, ": the saved position is in a batch that the input no longer has.");
  TORCH_CHECK_VALUE(row <= rows_, op_, ": the saved position is after row ", row,
                    " of a batch, but the batch has ", rows_, " rows.");
  row_ = row;
}

}  // namespace torch_distinput
