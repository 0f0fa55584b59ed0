// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "ops/ops.h"
#include "torch_distinput/error.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kAssertCardinalityName = "assert_cardinality";

std::string text(std::int64_t cardinality) {
  return cardinality == kInfiniteCardinality ? "an infinite number of" : std::to_string(cardinality);
}

/// Counts elements, and throws at the first one too many or at an early end. The state has the count.
class CountingIterator final : public Iterator {
 public:
  CountingIterator(IteratorPtr input, std::int64_t expected)
      : input_(std::move(input)), expected_(expected) {}

  std::optional<Element> next() override {
    std::optional<Element> element = input_->next();
    if (element) {
      if (elements_ == expected_) fail("at least " + std::to_string(elements_ + 1));
      ++elements_;
    } else if (elements_ != expected_) {
      fail("only " + std::to_string(elements_));
    }
    return element;
  }

  State save() const override { return State().set("input", input_->save()).set("elements", elements_); }
  void load(const State& state) override {
    const StateReader saved(state, kAssertCardinalityName);
    elements_ = saved.count("elements", most_counted(expected_));
    input_->load(saved.at("input"));
  }

 private:
  [[noreturn]] void fail(const std::string& found) const {
    throw FailedPreconditionError(c10::str(kAssertCardinalityName, ": the dataset must have ",
                                           text(expected_), " elements, but has ", found, "."));
  }

  IteratorPtr input_;
  std::int64_t expected_;
  std::int64_t elements_ = 0;
};

/// As tf.data's assert_cardinality: elements, rows and batch size are the input's, and the cardinality is the
/// one given. Random access if the input has it and its size is right; else sequential, because the error
/// must come at the element that is one too many. Sharding by file leaves the op out, as in tf.data.
class AssertCardinalityNode final : public UnaryNode {
 public:
  AssertCardinalityNode(NodePtr input, std::int64_t expected)
      : UnaryNode(std::move(input)), expected_(expected) {}

  std::string_view name() const override { return kAssertCardinalityName; }
  std::string describe() const override {
    return "assert_cardinality(cardinality=" + std::to_string(expected_) + ")";
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return assert_cardinality(std::move(inputs.at(0)), expected_);
  }
  std::int64_t cardinality() const override { return expected_; }
  Traits traits() const override {
    return {.sharding = {.pass_through = true, .asserts_size = true}, .rows = {.follows = Follows::kSame}};
  }

  /// A plan knows its size; if that is right, there is nothing to check.
  PlanPtr plan(const IterContext& context) const override {
    PlanPtr elements = input().plan(context.input(0));
    const std::int64_t size = expected_ == kInfiniteCardinality ? kEndless : expected_;
    return elements != nullptr && elements->size() == size ? elements : nullptr;
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<CountingIterator>(open_iterator(input_ptr(), context.input(0)), expected_);
  }

 private:
  std::int64_t expected_;
};

}  // namespace

NodePtr assert_cardinality(NodePtr input, std::int64_t cardinality) {
  TORCH_CHECK_VALUE(cardinality >= kInfiniteCardinality, kAssertCardinalityName,
                    ": `cardinality` must be at least 0, or -1 for infinite, but is ", cardinality, ".");
  return std::make_shared<AssertCardinalityNode>(std::move(input), cardinality);
}

}  // namespace torch_distinput::ops
