// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "execution/batch_reader.h"
#include "ops/batching/batching_node.h"
#include "ops/batching/padding.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kPaddedBatchName = "padded_batch";

/// As tf.data's padded_batch: rows are padded at the end of each dim, to the longest row of the whole batch
/// or to a declared shape. A part of a batch needs all its rows.
class PaddedBatchNode final : public BatchingNode {
 public:
  PaddedBatchNode(NodePtr input, std::int64_t batch_size, PaddedBatchOptions options)
      : BatchingNode(std::move(input), kPaddedBatchName, BatchSchedule(kPaddedBatchName, batch_size),
                     options.drop_remainder),
        options_(std::move(options)),
        padding_(std::make_shared<const Padding>(options_.padded_shapes, options_.padding_values,
                                                 kPaddedBatchName)) {
    if (const SpecPtr rows = quiet_spec(this->input())) padding_->of(*rows);
  }

  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return padded_batch(std::move(inputs.at(0)), sizes().size(0), options_);
  }
  NodePtr with_batch_size(NodePtr input, std::int64_t size) const override {
    return padded_batch(std::move(input), size, options_);
  }

 private:
  ElementSpec batch_spec(const ElementSpec& row, std::int64_t rows) const override {
    return padding_->batch_spec(row, rows);
  }
  JoinRows join_rows() const override { return padding_rows(padding_, kPaddedBatchName); }
  std::string more_arguments() const override { return padding_->describe(); }

  PaddedBatchOptions options_;
  std::shared_ptr<const Padding> padding_;
};

}  // namespace

NodePtr padded_batch(NodePtr input, std::int64_t batch_size, PaddedBatchOptions options) {
  return std::make_shared<PaddedBatchNode>(std::move(input), batch_size, std::move(options));
}

}  // namespace torch_distinput::ops
