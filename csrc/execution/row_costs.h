// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "torch_distinput/node.h"
#include "torch_distinput/row_cost.h"

namespace torch_distinput {

/// The costs of rows, checked. Immutable; safe from any thread.
class RowCosts {
 public:
  /// `call`: the op and the parameter for messages, such as "batch_by_cost: `cost`"; a literal. Throws
  /// c10::TypeError for a tensor that does not hold real numbers in one dimension, c10::ValueError for one
  /// that holds a number that is no cost, and for an undefined tensor or function.
  RowCosts(RowCost cost, std::string_view call);

  /// Whether costs are known without reading rows.
  bool known() const { return values_ != nullptr; }
  /// The user's function; null where there is none.
  const Function* function() const;
  /// For messages: `costs of 5 rows`, `'length'`, or the name of the function.
  std::string describe() const;
  /// The same with a hash of the costs, so that other costs are another pipeline.
  std::string identity() const;

  /// Throws c10::ValueError unless there is one cost for each row of the source of `rows`. REQUIRES:
  /// `known()`.
  void check(const NodePtr& rows) const;
  /// The pipeline `rows`, rows or batches of them, with the cost of each row in its place, a float64 scalar.
  /// Its plan, under the same context, has the same positions. REQUIRES: `known()`; `check` has passed.
  NodePtr in_place_of(const NodePtr& rows) const;
  /// The same with the number of each row in the source, an int64 scalar, for messages.
  NodePtr numbers_in_place_of(const NodePtr& rows) const;

  /// The cost of `row`, which is number `number`. `key`: that of the op, for random numbers of rows. Throws
  /// what the function throws, c10::TypeError if the row has no such cost, and c10::ValueError if it is not
  /// a finite number of at least 0. REQUIRES: `!known()`.
  double of(const Element& row, std::int64_t number, std::uint64_t key) const;

 private:
  double checked(double cost, std::int64_t number) const;
  double by_key(const Element& row, std::int64_t number) const;
  double by_function(Element row, std::int64_t number, std::uint64_t key) const;

  RowCost cost_;
  std::string_view call_;
  std::shared_ptr<const std::vector<double>> values_;  ///< null unless the costs are known
  std::uint64_t hash_ = 0;                             ///< of these
};

/// The costs of the rows that `segments` name, one after the other. `batches`: a plan of batches of costs.
std::vector<double> take_costs(const Plan& batches, std::span<const Segment> segments);

/// The numbers at `positions` of `plan`, whose elements are scalars of type T.
template <class T>
std::vector<T> gather_scalars(const Plan& plan, std::vector<std::int64_t> positions) {
  std::vector<T> values(positions.size());
  const RowSink sink{reinterpret_cast<char*>(values.data()), sizeof(T)};
  plan.gather(positions, {}, {&sink, 1});
  return values;
}

}  // namespace torch_distinput
