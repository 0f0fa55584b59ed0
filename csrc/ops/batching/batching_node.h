// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "execution/unary_node.h"
#include "ops/batching/batching.h"
#include "torch_distinput/spec.h"

namespace torch_distinput::ops {

/// Base of the ops whose batch i holds rows from i * `batch_size` on. Sets the batch size for inference.
/// Random access if the input has it; the state of its iterator is that of the input.
class BatchingNode : public UnaryNode {
 public:
  /// `name`: a literal. Throws c10::ValueError unless `batch_size` >= 1.
  BatchingNode(NodePtr input, std::string_view name, std::int64_t batch_size, bool drop_remainder);

  std::string_view name() const final { return name_; }
  std::string describe() const final;
  /// Without the size: pipeline_identity adds it to the identity of an op that depends on it.
  std::string identity() const final;

  SpecPtr spec() const final;
  std::int64_t cardinality() const final;
  std::optional<std::int64_t> batch_size() const final { return batch_size_; }
  Traits traits() const final { return {.sharding = {.pass_through = true}, .rows = {.batches = true}}; }

  PlanPtr plan(const IterContext& context) const final;
  IteratorPtr iterate(const IterContext& context) const final;

 protected:
  std::int64_t rows_of_batch() const { return batch_size_; }
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
  std::int64_t batch_size_;
  bool drop_remainder_;
};

}  // namespace torch_distinput::ops
