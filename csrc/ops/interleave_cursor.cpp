// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include <utility>
#include <vector>

#include "core/skip_budget.h"
#include "ops/interleave_cycle.h"

namespace torch_distinput {
namespace {

class InterleaveCursor final : public Iterator {
 public:
  InterleaveCursor(IteratorPtr input, DatasetFunctionPtr function, InterleaveTurns turns,
                   const IterContext& context)
      : input_(std::move(input)),
        function_(std::move(function)),
        cycle_(turns),
        slots_(cycle_.slots()),
        budget_(context, function_->call()) {}

  std::optional<Element> next() override {
    while (!ended_ || open_ > 0) {
      Slot& slot = slots_[cycle_.slot()];
      if (slot.elements == nullptr) {
        if (ended_) {
          cycle_.next_slot();
        } else {
          fill(slot);
        }
        continue;
      }
      if (std::optional<Element> element = slot.elements->next()) {
        cycle_.advance();
        return element;
      }
      slot = Slot();
      --open_;
      cycle_.next_slot();
    }
    budget_.end();
    return std::nullopt;
  }

  State save() const override {
    State::List slots;
    for (const Slot& slot : slots_) {
      slots.push_back(slot.elements == nullptr
                          ? State()
                          : SavedInner{slot.before, slot.number, slot.elements->save()}.save());
    }
    State state;
    state.set("input", input_->save()).set("number", number_);
    cycle_.save(state);
    state.set("slots", std::move(slots)).set("skip", budget_.save());
    return state;
  }

  void load(const State& state) override {
    const State::List& slots = state.at("slots").as_list();
    cycle_.load(state);
    slots_.clear();
    slots_.resize(cycle_.slots());
    open_ = 0;
    for (std::size_t i = 0; i < slots_.size() && i < slots.size(); ++i) {
      if (!slots[i].is_null()) reopen(slots_[i], SavedInner::load(slots[i]));
    }
    input_->load(state.at("input"));
    number_ = state.at("number").as_int();
    ended_ = false;
    budget_.load(state.at("skip"));
  }

 private:
  /// A place in the cycle; `elements` is null while it is empty.
  struct Slot {
    State before;  ///< the input's position before the dataset's element
    std::int64_t number = 0;
    IteratorPtr elements;
  };

  void fill(Slot& slot) {
    slot.before = input_->save();
    std::optional<Element> element = input_->next();
    ended_ = !element;
    if (ended_) return;
    slot.number = number_++;
    try {
      slot.elements = function_->open(std::move(*element), slot.number);
      ++open_;
      budget_.pass();
    } catch (...) {
      budget_.fail();
    }
  }

  void reopen(Slot& slot, const SavedInner& saved) {
    input_->load(saved.before);
    std::optional<Element> element = input_->next();
    TORCH_CHECK_VALUE(element, function_->call(), ": the saved position is in the dataset of element ",
                      saved.number, ", which the input no longer has.");
    slot = {saved.before, saved.number, function_->open(std::move(*element), saved.number)};
    if (!saved.position.is_null()) slot.elements->load(saved.position);
    ++open_;
  }

  IteratorPtr input_;
  DatasetFunctionPtr function_;
  InterleaveCycle cycle_;
  std::vector<Slot> slots_;
  std::int64_t open_ = 0;    ///< slots that are not empty
  std::int64_t number_ = 0;  ///< of the input's next element
  bool ended_ = false;       ///< the input
  SkipBudget budget_;
};

}  // namespace

void InterleaveCycle::save(State& state) const {
  state.set("slot", static_cast<std::int64_t>(slot_)).set("block", block_);
}

void InterleaveCycle::load(const State& state) {
  const std::int64_t slot = state.at("slot").as_int();
  TORCH_CHECK_VALUE(slot >= 0 && slot < turns_.cycle_length, "interleave: the saved `slot` must be in [0, ",
                    turns_.cycle_length, "), but is ", slot, ".");
  slot_ = static_cast<std::size_t>(slot);
  block_ = state.at("block").as_int();
}

State SavedInner::save() const {
  return State().set("before", before).set("number", number).set("position", position);
}

SavedInner SavedInner::load(const State& state) {
  return {state.at("before"), state.at("number").as_int(), state.at("position")};
}

IteratorPtr interleave_cursor(IteratorPtr input, DatasetFunctionPtr function, InterleaveTurns turns,
                              const IterContext& context) {
  return std::make_unique<InterleaveCursor>(std::move(input), std::move(function), turns, context);
}

}  // namespace torch_distinput
