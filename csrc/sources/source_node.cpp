// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/source_node.h"

#include <algorithm>
#include <utility>

#include "core/state_reader.h"

namespace torch_distinput {
namespace {

/// The state is the position of the next element. An error leaves it where it is.
class SequentialIterator final : public Iterator {
 public:
  explicit SequentialIterator(PlanPtr plan) : plan_(std::move(plan)) {}

  std::optional<Element> next() override {
    if (next_ >= plan_->size()) return std::nullopt;
    std::int64_t position = next_;
    std::vector<Element> elements = plan_->fetch({&position, 1});
    ++next_;
    return std::move(elements.front());
  }

  State save() const override { return State().set("next", next_); }
  void load(const State& state) override {
    next_ = StateReader(state, "state").count("next", std::min(plan_->size(), kMaxCounted));
  }

 private:
  PlanPtr plan_;
  std::int64_t next_ = 0;
};

}  // namespace

IteratorPtr iterate_plan(PlanPtr plan) { return std::make_unique<SequentialIterator>(std::move(plan)); }

}  // namespace torch_distinput
