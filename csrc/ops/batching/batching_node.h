// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "execution/rebased.h"
#include "execution/scheduled_batches.h"
#include "execution/unary_node.h"
#include "ops/batching/batching.h"
#include "torch_distinput/spec.h"

namespace torch_distinput::ops {

/// Base of the ops that make batches of consecutive rows. Sets the batch size for inference, unless it
/// changes with the number of the batch. Random access if the input has it.
class BatchingNode : public UnaryNode, public SchedulesBatches, public StacksRows {
 public:
  /// `name`: a literal.
  BatchingNode(NodePtr input, std::string_view name, BatchSchedule sizes, bool drop_remainder);

  std::string_view name() const final { return name_; }
  std::string describe() const final;
  /// Without the size, if it is one: pipeline_identity adds it to the identity of an op that depends on it.
  std::string identity() const final;

  SpecPtr spec() const final;
  std::int64_t cardinality() const final;
  std::optional<std::int64_t> batch_size() const final;
  BatchSchedulePtr changing_sizes() const final;
  NodePtr stacked(NodePtr rows) const final;
  Traits traits() const final { return {.sharding = {.pass_through = true}, .rows = {.batches = true}}; }

  PlanPtr plan(const IterContext& context) const final;
  IteratorPtr iterate(const IterContext& context) const final;

 protected:
  const BatchSchedule& sizes() const { return *sizes_; }
  bool drop_remainder() const { return drop_remainder_; }
  /// The type of batches of rows of type `row`.
  SpecPtr spec_of_batches(const ElementSpec& row) const;

 private:
  /// The type of a batch of `rows` rows (kUnknownDim: any number) of type `row`.
  virtual ElementSpec batch_spec(const ElementSpec& row, std::int64_t rows) const = 0;
  virtual JoinRows join_rows() const = 0;
  /// Arguments besides size and remainder, each after ", ".
  virtual std::string more_arguments() const { return ""; }

  std::string arguments() const;
  Batching batching(const IterContext& context) const;

  std::string_view name_;
  BatchSchedulePtr sizes_;
  bool drop_remainder_;
};

/// `batch` with sizes that are checked.
NodePtr stack_batches(NodePtr input, BatchSchedule sizes, bool drop_remainder);

}  // namespace torch_distinput::ops
