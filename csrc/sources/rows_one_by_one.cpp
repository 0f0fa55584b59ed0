// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/rows_one_by_one.h"

#include <utility>
#include <vector>

#include "core/state_reader.h"
#include "execution/skip_budget.h"

namespace torch_distinput {
namespace {

class RowsIterator final : public Iterator {
 public:
  RowsIterator(PlanPtr plan, const IterContext& context, std::string op)
      : plan_(std::move(plan)), op_(std::move(op)), budget_(context, op_) {}

  std::optional<Element> next() override {
    while (next_ < plan_->size()) {
      std::int64_t position = next_++;
      try {
        std::vector<Element> row = plan_->fetch({&position, 1});
        budget_.pass();
        return std::move(row.front());
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
    next_ = saved.count("next", plan_->size());
    budget_.load(saved.at("skip"));
  }

 private:
  PlanPtr plan_;
  std::string op_;
  SkipBudget budget_;
  std::int64_t next_ = 0;
};

}  // namespace

IteratorPtr rows_one_by_one(PlanPtr plan, const IterContext& context, std::string op) {
  return std::make_unique<RowsIterator>(std::move(plan), context, std::move(op));
}

}  // namespace torch_distinput
