// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/interrupt_watch.h"
#include "core/state_reader.h"
#include "execution/skip_budget.h"
#include "ops/functional/inner_reader.h"
#include "runtime/worker_thread.h"

namespace torch_distinput {
namespace {

/// The fewest elements of a dataset to read ahead: waking a thread costs as much as reading many elements.
constexpr std::int64_t kMinAhead = 16;

/// The interleave whose datasets are read ahead by threads; `next` and the input run in the consumer's
/// thread.
class ParallelInterleave final : public Iterator {
 public:
  ParallelInterleave(IteratorPtr input, DatasetFunctionPtr function, InterleaveTurns turns,
                     std::int64_t threads, bool ordered, const IterContext& context)
      : input_(std::move(input)),
        function_(std::move(function)),
        cycle_(turns),
        ahead_(std::max(kMinAhead, turns.block_length)),
        threads_(threads),
        ordered_(ordered),
        slots_(cycle_.slots()),
        budget_(context, function_->call()) {}

  std::optional<Element> next() override {
    start_threads();
    for (;;) {
      read_ahead();
      if (!ordered_) fill_slots();
      if (waiting_.empty() && open() == 0) {
        budget_.end();
        return std::nullopt;
      }
      if (!ordered_) turn_to_ready();
      InnerReaderPtr& slot = slots_[cycle_.slot()];
      if (slot == nullptr) {
        fill(slot);
        if (slot == nullptr) cycle_.next_slot();
        continue;
      }
      const bool fresh = slot->saved().position.is_null();
      InnerReaders::Taken taken = readers_->take(slot);
      if (fresh && taken.opened) budget_.pass();
      if (taken.element) {
        cycle_.advance();
        return std::move(taken.element);
      }
      leave(slot, taken);
    }
  }

  State save() const override {
    State::List slots;
    for (const InnerReaderPtr& slot : slots_)
      slots.push_back(slot == nullptr ? State() : slot->saved().save());
    // Datasets that wait for a slot count as not read: the input is saved before the first of them.
    State state;
    state.set("input", waiting_.empty() ? input_->save() : waiting_.front()->saved().before);
    state.set("number", waiting_.empty() ? number_ : waiting_.front()->saved().number);
    cycle_.save(state);
    state.set("slots", std::move(slots)).set("skip", budget_.save());
    return state;
  }

  void load(const State& state) override {
    readers_.reset();
    const StateReader saved(state, "interleave");
    cycle_.load(state);
    number_ = saved.count("number");
    const std::vector<std::optional<SavedInner>> slots = load_slots(state, cycle_.slots());
    budget_.load(saved.at("skip"));
    slots_.clear();
    slots_.resize(cycle_.slots());
    waiting_.clear();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i]) slots_[i] = reopened(*slots[i]);
    }
    input_->load(saved.at("input"));
    ended_ = false;
  }

 private:
  std::size_t open() const {
    return slots_.size() - static_cast<std::size_t>(std::count(slots_.begin(), slots_.end(), nullptr));
  }

  void start_threads() {
    if (readers_ != nullptr) return;
    readers_ = std::make_unique<InnerReaders>(
        function_, make_thread_pool(static_cast<int>(threads_), kInterleaveThreads), ahead_);
    for (const InnerReaderPtr& slot : slots_) {
      if (slot != nullptr) readers_->start(slot);
    }
  }

  /// Starts the datasets of the next elements, one for each empty slot and at least one.
  void read_ahead() {
    while (!ended_ && waiting_.size() < std::max<std::size_t>(1, slots_.size() - open())) {
      State before = input_->save();
      const InterruptWatch watch;
      try {
        std::optional<Element> element = input_->next();
        ended_ = !element;
        if (ended_) return;
        waiting_.push_back(std::make_shared<InnerReader>(SavedInner{std::move(before), number_, State()},
                                                         std::move(*element)));
        ++number_;
      } catch (...) {
        if (watch.interrupt()) throw;
        ended_ = true;
        waiting_.push_back(std::make_shared<InnerReader>(SavedInner{std::move(before), number_, State()},
                                                         std::current_exception()));
      }
      readers_->start(waiting_.back());
    }
  }

  void fill(InnerReaderPtr& slot) {
    if (waiting_.empty()) return;
    slot = std::move(waiting_.front());
    waiting_.pop_front();
  }
  void fill_slots() {
    for (InnerReaderPtr& slot : slots_) {
      if (slot == nullptr) fill(slot);
    }
  }

  /// Gives the turn to the next slot that has a result ready, which may change the order.
  void turn_to_ready() {
    const std::size_t slot = readers_->wait_any(slots_, cycle_.slot());
    if (slot != cycle_.slot()) cycle_.go_to(slot);
  }

  /// Empties a slot whose dataset has ended or failed. If the function failed, the slot counts as never
  /// filled and keeps its turn.
  void leave(InnerReaderPtr& slot, const InnerReaders::Taken& taken) {
    slot = nullptr;
    if (taken.error == nullptr) {
      cycle_.next_slot();
      return;
    }
    if (!taken.failed) std::rethrow_exception(taken.error);
    try {
      std::rethrow_exception(taken.error);
    } catch (...) {
      budget_.fail();
    }
  }

  InnerReaderPtr reopened(SavedInner saved) {
    input_->load(saved.before);
    std::optional<Element> element = input_->next();
    TORCH_CHECK_VALUE(element, function_->call(), ": the saved position is in the dataset of element ",
                      saved.number, ", but the input ended before it.");
    return std::make_shared<InnerReader>(std::move(saved), std::move(*element));
  }

  IteratorPtr input_;
  DatasetFunctionPtr function_;
  InterleaveCycle cycle_;
  std::int64_t ahead_;
  std::int64_t threads_;
  bool ordered_;
  std::vector<InnerReaderPtr> slots_;
  std::deque<InnerReaderPtr> waiting_;  ///< datasets that wait for a slot, in the input's order
  std::int64_t number_ = 0;             ///< the number of the input's next element
  bool ended_ = false;                  ///< the input has ended or failed
  SkipBudget budget_;
  std::unique_ptr<InnerReaders> readers_;  ///< null before the first `next`
};

}  // namespace

IteratorPtr ordered_parallel_interleave(IteratorPtr input, DatasetFunctionPtr function, InterleaveTurns turns,
                                        std::int64_t threads, const IterContext& context) {
  return std::make_unique<ParallelInterleave>(std::move(input), std::move(function), turns, threads,
                                              /*ordered=*/true, context);
}

IteratorPtr unordered_parallel_interleave(IteratorPtr input, DatasetFunctionPtr function,
                                          InterleaveTurns turns, std::int64_t threads,
                                          const IterContext& context) {
  return std::make_unique<ParallelInterleave>(std::move(input), std::move(function), turns, threads,
                                              /*ordered=*/false, context);
}

}  // namespace torch_distinput
