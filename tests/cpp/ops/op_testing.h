// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include "execution/open.h"
#include "support/errors.h"
#include "support/numbers.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/testing.h"

/// Helpers for the tests of ops: pipelines of int64 elements whose elements are read as plain numbers.
namespace torch_distinput::op_testing {

using torch_distinput::numbers;
using torch_distinput::sorted;

/// The items of one element, or of a whole dataset.
using Values = std::vector<std::int64_t>;

/// The int64 items of all leaves, in the order of the leaves.
inline Values items(const Element& element) {
  Values values;
  for (std::size_t leaf = 0; leaf < element.leaves().size(); ++leaf) {
    const at::Tensor dense = element.tensor(leaf).contiguous();
    const auto* data = dense.const_data_ptr<std::int64_t>();
    values.insert(values.end(), data, data + dense.numel());
  }
  return values;
}

/// The items of each of the next elements of `iterator`, up to `most` elements.
inline std::vector<Values> elements(Iterator& iterator, std::size_t most = 1000) {
  std::vector<Values> result;
  while (result.size() < most) {
    const std::optional<Element> element = iterator.next();
    if (!element) break;
    result.push_back(items(*element));
  }
  return result;
}

/// The elements of one epoch.
inline std::vector<Element> collect(const Dataset& dataset, IterateOptions options = {.epoch = 0}) {
  DatasetIterator iterator = dataset.iterate(options);
  std::vector<Element> result;
  while (std::optional<Element> element = iterator.next()) result.push_back(std::move(*element));
  return result;
}

/// The items of each element of `dataset`.
inline std::vector<Values> elements(const Dataset& dataset, IterateOptions options = {.epoch = 0}) {
  DatasetIterator iterator = dataset.iterate(options);
  return elements(iterator);
}

/// All items of all elements.
inline Values values(const Dataset& dataset, IterateOptions options = {.epoch = 0}) {
  Values result;
  for (const Values& element : elements(dataset, options))
    result.insert(result.end(), element.begin(), element.end());
  return result;
}

/// All items of all elements, read on the sequential path.
inline Values stream_values(const Dataset& dataset) {
  return values(dataset, {.epoch = 0, .stream_only = true});
}

/// The number in an element that is an int64 scalar, and the element of a number.
inline std::int64_t scalar(const Element& element) { return element.tensor().item<std::int64_t>(); }
inline Element scalar(std::int64_t value) { return at::scalar_tensor(value, at::kLong); }

/// A dataset of the int64 scalars that the function yields which `open` returns.
template <class Open>
Dataset scalars_from(const Open& open) {
  return Dataset::from_generator(open, {Structure::leaf(), {TensorSpec{Dims{}, at::kLong}}});
}

/// A dataset of 0, 1, ..., `size` - 1 without random access.
inline Dataset generated(std::int64_t size) {
  return scalars_from([size] {
    return [size, next = std::int64_t{0}]() mutable -> std::optional<Element> {
      if (next == size) return std::nullopt;
      return scalar(next++);
    };
  });
}

/// The plan of epoch 0; null if there is none.
inline PlanPtr plan_of(const Dataset& dataset) {
  return dataset.node()->plan(
      epoch_context(make_execution_context(dataset.options()), 1, 0, /*stream_only=*/false));
}

/// A function that changes nothing.
inline Element same(Element element) { return element; }

/// A function that throws a std::runtime_error for the number `bad`, and changes nothing.
inline std::function<Element(Element)> fails_at(std::int64_t bad) {
  return [bad](Element element) {
    if (scalar(element) == bad) throw std::runtime_error("bad row");
    return element;
  };
}

/// A function that counts as user code, which may block.
class UserFunction final : public Function {
 public:
  explicit UserFunction(std::function<Element(Element)> function) : function_(std::move(function)) {}
  void apply(std::span<Element> elements) const override {
    for (Element& element : elements) element = function_(std::move(element));
  }
  bool runs_user_code() const override { return true; }
  std::string name() const override { return "user_function"; }

 private:
  std::function<Element(Element)> function_;
};

/// `function` as user code.
inline FunctionPtr runs_user_code(std::function<Element(Element)> function) {
  return std::make_shared<UserFunction>(std::move(function));
}

/// Options that skip rows that fail.
inline Options skipping(Skip limits = {}) {
  Options options;
  options.skip = limits;
  return options;
}

/// Checks the laws of every op: it can be resumed from any position, and both paths yield the same elements.
inline void expect_laws(const Dataset& dataset) {
  EXPECT_NO_THROW(testing::assert_resumable(dataset));
  EXPECT_NO_THROW(testing::assert_paths_agree(dataset));
}

}  // namespace torch_distinput::op_testing
