// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/rows_one_by_one.h"

#include <utility>

#include "core/state_reader.h"
#include "execution/element_reader.h"
#include "execution/execution_context.h"
#include "execution/skip_budget.h"

namespace torch_distinput {
namespace {

class RowsIterator final : public Iterator {
 public:
  RowsIterator(PlanPtr plan, const IterContext& context, std::string op)
      : rows_(std::move(plan), context.execution->options), op_(std::move(op)), budget_(context, op_) {}

  std::optional<Element> next() override {
    while (next_ < rows_.size()) {
      try {
        Element row = rows_.fetch(next_++);
        budget_.pass();
        return row;
      } catch (...) {
        budget_.fail();
      }
    }
    budget_.end();
    return std::nullopt;
  }

  State save() const override { return State().set("next", next_).set("skip", budget_.save()); }
  void load(const State& state) override {
    const StateReader saved(state, op_);
    next_ = saved.count("next", rows_.size());
    budget_.load(saved.at("skip"));
  }

 private:
  ElementReader rows_;
  std::string op_;
  SkipBudget budget_;
  std::int64_t next_ = 0;
};

}  // namespace

IteratorPtr rows_one_by_one(PlanPtr plan, const IterContext& context, std::string op) {
  return std::make_unique<RowsIterator>(std::move(plan), context, std::move(op));
}

}  // namespace torch_distinput
