// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "execution/unary_node.h"
#include "ops/functional/dataset_function.h"

namespace torch_distinput {

/// The base of the ops that apply a function from elements to datasets and yield the elements of these
/// datasets. They are sequential, of unknown cardinality and without a batch size. The spec and
/// `yields_readers` run the function once, on the first element for which it does not fail.
class DatasetFunctionNode : public UnaryNode {
 public:
  /// Applies `function` to the elements of `input`.
  DatasetFunctionNode(NodePtr input, FunctionPtr function)
      : UnaryNode(std::move(input)), function_(std::move(function)) {}

  /// The spec of the first dataset's elements. Other datasets may have other dims, so dims are unknown and
  /// those seen are only expected.
  SpecPtr spec() const final;
  std::int64_t cardinality() const final { return kUnknownCardinality; }
  std::optional<std::int64_t> batch_size() const final { return std::nullopt; }
  Traits traits() const final {
    return {.sharding = {.pass_through = true, .expands = true}, .rows = {.fallible = true}};
  }
  std::vector<const UserCode*> user_code() const final { return {function_.get()}; }
  bool yields_readers() const final;

 protected:
  const FunctionPtr& function() const { return function_; }
  /// Returns the function, bound to `context`, the context of this op.
  DatasetFunction dataset_function(const IterContext& context) const {
    return DatasetFunction(function_, std::string(name()), context);
  }

 private:
  /// The properties of the first dataset.
  struct Probe {
    SpecPtr spec;          ///< null if it is unknown
    bool readers = false;  ///< the dataset reads files
  };
  Probe probe() const;
  Probe look() const;
  std::optional<Probe> look(const Options& options) const;
  static Probe probe_of(const Node& dataset);

  FunctionPtr function_;
  mutable std::mutex mutex_;
  mutable std::optional<Probe> probe_;
};

}  // namespace torch_distinput
