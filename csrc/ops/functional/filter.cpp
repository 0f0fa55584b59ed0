// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "core/locate_errors.h"
#include "core/state_reader.h"
#include "execution/open.h"
#include "execution/skip_budget.h"
#include "execution/unary_node.h"
#include "ops/ops.h"
#include "torch_distinput/random.h"

namespace torch_distinput::ops {
namespace {

std::string call(const Function& predicate) { return "filter(" + predicate.name() + ")"; }

/// Returns the predicate's answer for `element`, the input's element `number`. Throws c10::TypeError if it is
/// not one bool scalar.
bool keeps(const Function& predicate, Element element, std::uint64_t key, std::int64_t number) {
  {
    const RowScope row(key, {&number, 1});
    const auto where = [&] { return c10::str(call(predicate), ": element ", number); };
    locate_errors(predicate, where, [&] { predicate.apply({&element, 1}); });
  }
  const at::Tensor* answer =
      element.structure() == Structure::leaf() ? std::get_if<at::Tensor>(&element.leaves().front()) : nullptr;
  TORCH_CHECK_TYPE(answer != nullptr && answer->dim() == 0 && answer->scalar_type() == at::kBool,
                   call(predicate), ": element ", number,
                   ": the predicate must return one bool scalar, but returned ", to_string(spec_of(element)),
                   ".");
  return answer->item<bool>();
}

/// The state is the input's, and the number of elements read, which random numbers of rows depend on.
class FilterIterator final : public Iterator {
 public:
  FilterIterator(IteratorPtr input, FunctionPtr predicate, const IterContext& context)
      : input_(std::move(input)),
        predicate_(std::move(predicate)),
        key_(context.rows_key()),
        budget_(context, call(*predicate_)) {}

  std::optional<Element> next() override {
    while (std::optional<Element> element = input_->next()) {
      bool kept = false;
      try {
        kept = keeps(*predicate_, *element, key_, number_++);
        budget_.pass();
      } catch (...) {
        budget_.fail();
      }
      if (kept) return element;
    }
    budget_.end();
    return std::nullopt;
  }

  State save() const override {
    return State().set("input", input_->save()).set("number", number_).set("skip", budget_.save());
  }

  void load(const State& state) override {
    const StateReader saved(state, "filter");
    number_ = saved.count("number");
    budget_.load(saved.at("skip"));
    input_->load(saved.at("input"));
  }

 private:
  IteratorPtr input_;
  FunctionPtr predicate_;
  std::uint64_t key_;
  std::int64_t number_ = 0;  ///< the number of the input's next element
  SkipBudget budget_;
};

/// As tf.data's filter: elements are dropped or kept whole, so batches keep their size. Sequential, of
/// unknown cardinality.
class FilterNode final : public UnaryNode {
 public:
  FilterNode(NodePtr input, FunctionPtr predicate)
      : UnaryNode(std::move(input)), predicate_(std::move(predicate)) {}

  std::string_view name() const override { return "filter"; }
  std::string describe() const override { return call(*predicate_); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return filter(std::move(inputs.at(0)), predicate_);
  }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  Traits traits() const override { return {.sharding = {.pass_through = true}, .rows = {.fallible = true}}; }
  std::vector<const UserCode*> user_code() const override { return {predicate_.get()}; }

  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<FilterIterator>(open_iterator(input_ptr(), context.input(0)), predicate_,
                                            context);
  }

 private:
  FunctionPtr predicate_;
};

}  // namespace

NodePtr filter(NodePtr input, FunctionPtr predicate) {
  TORCH_CHECK_VALUE(predicate != nullptr, "filter: `predicate` must not be null.");
  return std::make_shared<FilterNode>(std::move(input), std::move(predicate));
}

}  // namespace torch_distinput::ops
