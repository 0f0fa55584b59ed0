// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/skip_budget.h"
#include "ops/functional/interleave_cycle.h"

namespace torch_distinput {
namespace {

constexpr const char* kInterleaveIteratorName = "interleave";

/// Reads all datasets in the consumer's thread.
class InterleaveIterator final : public Iterator {
 public:
  InterleaveIterator(IteratorPtr input, DatasetFunctionPtr function, InterleaveTurns turns,
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
    const StateReader saved(state, kInterleaveIteratorName);
    cycle_.load(state);
    number_ = saved.count("number");
    const std::vector<std::optional<SavedInner>> slots = load_slots(state, cycle_.slots());
    budget_.load(saved.at("skip"));
    slots_.clear();
    slots_.resize(cycle_.slots());
    open_ = 0;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i]) reopen(slots_[i], *slots[i]);
    }
    input_->load(saved.at("input"));
    ended_ = false;
  }

 private:
  /// A place in the cycle.
  struct Slot {
    State before;             ///< the input's state before the element of the dataset
    std::int64_t number = 0;  ///< the number of that element
    IteratorPtr elements;     ///< over the dataset; null while the slot is empty
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
                      saved.number, ", but the input ended before it.");
    slot = {saved.before, saved.number, function_->open(std::move(*element), saved.number)};
    if (!saved.position.is_null()) slot.elements->load(saved.position);
    ++open_;
  }

  IteratorPtr input_;
  DatasetFunctionPtr function_;
  InterleaveCycle cycle_;
  std::vector<Slot> slots_;
  std::int64_t open_ = 0;    ///< slots that are not empty
  std::int64_t number_ = 0;  ///< the number of the input's next element
  bool ended_ = false;       ///< the input has ended
  SkipBudget budget_;
};

}  // namespace

void InterleaveCycle::save(State& state) const {
  state.set("slot", static_cast<std::int64_t>(slot_)).set("block", block_);
}

void InterleaveCycle::load(const State& state) {
  const StateReader saved(state, kInterleaveIteratorName);
  slot_ = saved.index("slot", slots());
  block_ = saved.count("block", turns_.block_length - 1);
}

State SavedInner::save() const {
  return State().set("before", before).set("number", number).set("position", position);
}

SavedInner SavedInner::load(const State& state) {
  const StateReader saved(state, kInterleaveIteratorName);
  return {saved.at("before"), saved.count("number"), saved.at("position")};
}

std::vector<std::optional<SavedInner>> load_slots(const State& state, std::size_t slots) {
  const StateReader saved(state, kInterleaveIteratorName);
  const std::int64_t next = saved.count("number");
  std::set<std::int64_t> numbers;
  std::vector<std::optional<SavedInner>> loaded;
  for (const State& slot : saved.list("slots", slots)) {
    loaded.push_back(slot.is_null() ? std::nullopt : std::optional(SavedInner::load(slot)));
    if (!loaded.back()) continue;
    const std::int64_t number = loaded.back()->number;
    TORCH_CHECK_VALUE(number < next && numbers.insert(number).second, kInterleaveIteratorName,
                      ": the saved `slots` must have different `number`s below ", next, ", but one is ",
                      number, ".");
  }
  return loaded;
}

IteratorPtr interleave_iterator(IteratorPtr input, DatasetFunctionPtr function, InterleaveTurns turns,
                                const IterContext& context) {
  return std::make_unique<InterleaveIterator>(std::move(input), std::move(function), turns, context);
}

}  // namespace torch_distinput
