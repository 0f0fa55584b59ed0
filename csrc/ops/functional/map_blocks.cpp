// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/functional/map_blocks.h"

#include <deque>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "core/interrupt_watch.h"
#include "core/state_reader.h"
#include "execution/skip_budget.h"
#include "ops/functional/map_input.h"

namespace torch_distinput {
namespace {

class MapBlocks final : public Iterator {
 public:
  MapBlocks(IteratorPtr input, std::shared_ptr<const MapFunction> function, std::int64_t block,
            const IterContext& context)
      : input_(std::move(input)),
        function_(std::move(function)),
        block_(block),
        budget_(context, function_->call()) {}

  std::optional<Element> next() override {
    for (;;) {
      if (rows_.empty()) read();
      if (rows_.empty()) {
        if (input_error_) std::rethrow_exception(input_error_);
        budget_.end();
        return std::nullopt;
      }
      Row row = std::move(rows_.front());
      rows_.pop_front();
      try {
        if (!row.done) function_->apply({&row.element, 1}, {&row.number, 1});
        budget_.pass();
        return std::move(row.element);
      } catch (...) {
        budget_.fail();
      }
    }
  }

  State save() const override {
    State state = rows_.empty() ? input_.save() : rows_.front().before;
    state.set("skip", budget_.save());
    return state;
  }

  void load(const State& state) override {
    budget_.load(StateReader(state, "map").at("skip"));
    rows_.clear();
    input_error_ = nullptr;
    input_.load(state);
  }

 private:
  struct Row {
    State before;  ///< of the input
    std::int64_t number;
    Element element;    ///< the argument, or the result
    bool done = false;  ///< whether the function has been called
  };

  /// Reads a block and calls the function for it. An error of the input is thrown after the rows before it.
  void read() {
    const InterruptWatch watch;
    std::int64_t bytes = 0;
    while (!input_error_ && std::ssize(rows_) < block_ && bytes < kMostBytesOfCall) {
      State before = input_.save();
      try {
        std::optional<MapInput::Item> item = input_.next();
        if (!item) break;
        bytes += item->element.bytes();
        rows_.push_back({std::move(before), item->number, std::move(item->element)});
      } catch (...) {
        if (watch.interrupt()) throw;
        input_error_ = std::current_exception();
      }
    }
    if (rows_.size() > 1) call(watch);
  }

  void call(const InterruptWatch& watch) {
    std::vector<Element> elements;
    std::vector<std::int64_t> numbers;
    for (const Row& row : rows_) {
      elements.push_back(row.element);
      numbers.push_back(row.number);
    }
    try {
      function_->apply(elements, numbers);
    } catch (...) {
      if (watch.interrupt()) throw;
      return;
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].element = std::move(elements[i]);
      rows_[i].done = true;
    }
  }

  MapInput input_;
  std::shared_ptr<const MapFunction> function_;
  std::int64_t block_;
  SkipBudget budget_;

  std::deque<Row> rows_;  ///< read, and not yet delivered
  std::exception_ptr input_error_;
};

}  // namespace

IteratorPtr map_blocks(IteratorPtr input, std::shared_ptr<const MapFunction> function, std::int64_t block,
                       const IterContext& context) {
  return std::make_unique<MapBlocks>(std::move(input), std::move(function), block, context);
}

}  // namespace torch_distinput
