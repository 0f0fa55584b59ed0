// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/functional/asked_map.h"

#include <chrono>
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

/// How long elements are read for one call, so that those of a slow input are not held back.
constexpr std::chrono::milliseconds kReadTimeOfCall{2};

class AskedMap final : public Iterator {
 public:
  AskedMap(IteratorPtr input, std::shared_ptr<const MapFunction> function, const IterContext& context)
      : input_(std::move(input)), function_(std::move(function)), budget_(context, function_->call()) {}
  ~AskedMap() override { forget(); }
  AskedMap(const AskedMap&) = delete;
  AskedMap& operator=(const AskedMap&) = delete;

  std::optional<Element> next() override {
    for (;;) {
      if (calls_.empty() || !calls_.front().taken) fill();
      if (calls_.empty()) {
        if (input_error_) std::rethrow_exception(input_error_);
        before_end_.reset();
        budget_.end();
        return std::nullopt;
      }
      Call& call = calls_.front();
      if (!call.taken) take(call);
      const std::exception_ptr error = call.errors[call.next];
      Element element = std::move(call.elements[call.next]);
      if (++call.next == call.numbers.size()) calls_.pop_front();
      try {
        if (error) std::rethrow_exception(error);
        budget_.pass();
        return element;
      } catch (...) {
        budget_.fail();
      }
    }
  }

  State save() const override { return saved_input().set("skip", budget_.save()); }

  void load(const State& state) override {
    budget_.load(StateReader(state, "map").at("skip"));
    forget();
    ended_ = false;
    input_error_ = nullptr;
    before_end_.reset();
    input_.load(state);
  }

 private:
  /// A call for consecutive elements, with an entry for each.
  struct Call {
    std::vector<State> before;  ///< of the input
    std::vector<std::int64_t> numbers;
    std::vector<Element> elements;  ///< the arguments until it was asked for; the results once it was taken
    std::vector<std::exception_ptr> errors;  ///< once it was taken
    std::optional<MapFunction::Asked> asked;
    bool taken = false;
    std::size_t next = 0;  ///< the element that is delivered next
  };

  State saved_input() const {
    if (!calls_.empty()) return calls_.front().before[calls_.front().next];
    return before_end_ ? *before_end_ : input_.save();
  }

  void fill() {
    if (!calls_.empty()) ask(calls_.back());  // an interrupt came before
    while (!ended_ && !input_error_ && (calls_.empty() || function_->calls()->may_ask())) read();
  }

  /// Reads elements and asks for their results.
  void read() {
    Call call;
    const std::int64_t most = function_->worth_a_call();
    const auto end = std::chrono::steady_clock::now() + kReadTimeOfCall;
    std::int64_t bytes = 0;
    std::exception_ptr interrupt;  // what was read before it is kept
    try {
      while (read_into(call)) {
        bytes += call.elements.back().bytes();
        if (std::ssize(call.elements) >= most || bytes >= kMostBytesOfCall) break;
        if (std::chrono::steady_clock::now() >= end) break;
      }
    } catch (...) {
      interrupt = std::current_exception();
    }
    if (!call.numbers.empty()) calls_.push_back(std::move(call));
    if (interrupt) std::rethrow_exception(interrupt);
    if (!calls_.empty()) ask(calls_.back());
  }

  /// Appends the next element of the input; false at the end and after an error of the input.
  bool read_into(Call& call) {
    const InterruptWatch watch;
    State before = input_.save();
    try {
      std::optional<MapInput::Item> item = input_.next();
      if (item) {
        call.before.push_back(std::move(before));
        call.numbers.push_back(item->number);
        call.elements.push_back(std::move(item->element));
        return true;
      }
      ended_ = true;
    } catch (...) {
      if (watch.interrupt()) throw;
      input_error_ = std::current_exception();
    }
    before_end_ = std::move(before);
    return false;
  }

  void ask(Call& call) {
    if (call.asked) return;
    call.asked = function_->ask(call.elements, call.numbers);
    call.elements.assign(call.elements.size(), Element());
  }

  void take(Call& call) {
    call.errors = function_->take(*call.asked, call.elements, call.numbers);
    call.taken = true;
  }

  void forget() {
    for (const Call& call : calls_) {
      if (call.asked && !call.taken) function_->calls()->forget(call.asked->call);
    }
    calls_.clear();
  }

  MapInput input_;
  std::shared_ptr<const MapFunction> function_;
  SkipBudget budget_;

  std::deque<Call> calls_;  ///< oldest first
  bool ended_ = false;
  std::exception_ptr input_error_;
  std::optional<State> before_end_;  ///< the input's before its end or error, until the consumer sees that
};

}  // namespace

IteratorPtr asked_map(IteratorPtr input, std::shared_ptr<const MapFunction> function,
                      const IterContext& context) {
  return std::make_unique<AskedMap>(std::move(input), std::move(function), context);
}

}  // namespace torch_distinput
