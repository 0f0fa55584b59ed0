// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/polling.h"
#include "base/process_owned.h"
#include "base/stage.h"
#include "runtime/executor.h"
#include "runtime/producer_state.h"

namespace torch_distinput {

/// Builds items 0, 1, 2, ... in the background, out of order, and returns them in order.
///
/// It starts to build ahead at construction. Where no thread has begun the next item, `next` builds it
/// itself (after `time_to_begin`), so a producer always makes progress, also on a busy or dead executor.
/// While another thread builds it, `next` builds later items if they are short (below about 50 us, and not
/// `may_block`), and waits otherwise. With `concurrency() == 0` everything is built in `next` and nothing
/// ahead.
///
/// One thread at a time may call `next` and `ready`. `stop`, `position` and `waits` are safe from any thread.
/// A producer that a forked child inherits must not be used there; destroying it is safe.
template <class T>
class OrderedProducer {
 public:
  /// Builds one item. Called at most once for each index, by many threads at a time and not in order. May
  /// throw.
  using Make = std::function<T(std::int64_t index)>;

  /// Produces items [begin, end), 0 <= `begin` <= `end`; `end` may be INT64_MAX. Throws std::invalid_argument
  /// for other ranges and for a `depth` or `burst` below 1.
  OrderedProducer(Make make, std::int64_t begin, std::int64_t end, std::shared_ptr<Executor> executor,
                  ProducerOptions options);
  /// Stops, then destroys `make` and the items that were built and not returned, and releases the executor.
  ~OrderedProducer();
  OrderedProducer(const OrderedProducer&) = delete;
  OrderedProducer& operator=(const OrderedProducer&) = delete;

  /// The item at `position()`; nullopt at the end and after `stop`. Where `make` threw for it, throws that
  /// exception now and at each later call, and `position()` stays. What `poll` throws ends the wait and
  /// changes nothing.
  std::optional<T> next(const Poll& poll = {});

  /// Index of the item that `next` returns next.
  std::int64_t position() const noexcept { return state_->progress.position(); }

  /// Whether `next` would return or throw at once: the item is built, or there is none. Where nothing is
  /// built ahead (`concurrency() == 0`), true only at the end.
  bool ready() const;

  /// From the next `next` on, the whole depth and all threads are used. For the thread that calls `next`.
  void widen() { state_->progress.widen(); }

  /// Whether `next` has thrown an exception of `make`.
  bool failed() const noexcept { return error_ != nullptr; }

  /// Times that `next` slept because another thread was still building the item.
  std::int64_t waits() const noexcept { return state_->progress.waits(); }

  /// Starts no further `make` and waits until running ones have returned. Idempotent. The caller must not
  /// hold a lock that `make` needs (the GIL), and must not be inside `make`.
  void stop();

 private:
  struct alignas(64) Slot {
    std::atomic<bool> ready{false};
    std::optional<T> value;
    std::exception_ptr error;
  };
  struct State;

  static void run(const std::shared_ptr<State>& state);
  static void build(State& state, std::int64_t index);
  static void submit(const std::shared_ptr<State>& state);
  void submit_wanted();
  std::optional<T> build_here(std::int64_t index);
  std::optional<T> take(Slot& slot);

  ProcessOwned<State> state_;
  std::exception_ptr error_;
};

template <class T>
struct OrderedProducer<T>::State {
  State(Make make_item, IndexRange indices, std::shared_ptr<Executor> runner, ProducerOptions options)
      : make(std::move(make_item)),
        executor(std::move(runner)),
        progress(indices, options, executor->concurrency()),
        // A power of two, so that an index finds its slot without a division.
        slots(executor->concurrency() == 0 ? 0 : std::bit_ceil(static_cast<std::uint64_t>(options.depth))) {}

  Slot& slot(std::int64_t index) { return slots[static_cast<std::uint64_t>(index) & (slots.size() - 1)]; }

  Make make;
  std::shared_ptr<Executor> executor;
  ProducerState progress;
  std::vector<Slot> slots;
};

template <class T>
OrderedProducer<T>::OrderedProducer(Make make, std::int64_t begin, std::int64_t end,
                                    std::shared_ptr<Executor> executor, ProducerOptions options)
    : state_(std::make_shared<State>(std::move(make), IndexRange{begin, end}, std::move(executor), options)) {
  submit_wanted();
}

template <class T>
OrderedProducer<T>::~OrderedProducer() {
  if (state_.inherited()) return;
  state_->progress.stop();
  // A task that has not started may hold the state for long; users' objects must be freed before that.
  state_->slots.clear();
  state_->make = nullptr;
  state_->executor.reset();
}

template <class T>
std::optional<T> OrderedProducer<T>::next(const Poll& poll) {
  if (error_) std::rethrow_exception(error_);
  ProducerState& progress = state_->progress;
  const std::int64_t index = progress.position();
  if (progress.stopped() || index == progress.end()) return std::nullopt;
  if (state_->slots.empty()) return progress.claim_help() ? build_here(index) : std::nullopt;
  note_queue(progress.ready(), progress.room_for());
  Slot& slot = state_->slot(index);
  while (!slot.ready.load(std::memory_order_acquire)) {
    const std::optional<std::int64_t> help = progress.claim_help();
    if (help == index) return build_here(index);
    if (help) {
      build(*state_, *help);
      progress.end_building();
    } else if (!progress.wait(slot.ready, poll)) {
      return std::nullopt;
    }
  }
  return take(slot);
}

template <class T>
bool OrderedProducer<T>::ready() const {
  const ProducerState& progress = state_->progress;
  if (error_ || progress.stopped() || progress.position() == progress.end()) return true;
  return !state_->slots.empty() && state_->slot(progress.position()).ready.load(std::memory_order_acquire);
}

template <class T>
void OrderedProducer<T>::stop() {
  if (!state_.inherited()) state_->progress.stop();
}

template <class T>
std::optional<T> OrderedProducer<T>::build_here(std::int64_t index) {
  submit_wanted();
  std::optional<T> item;
  try {
    item.emplace(state_->make(index));
  } catch (...) {
    error_ = std::current_exception();
    state_->progress.fail(/*helped=*/true);
    throw;
  }
  state_->progress.end_help();
  return item;
}

template <class T>
std::optional<T> OrderedProducer<T>::take(Slot& slot) {
  if (slot.error) {
    error_ = std::move(slot.error);
    state_->progress.fail(/*helped=*/false);
    std::rethrow_exception(error_);
  }
  std::optional<T> item = std::move(slot.value);
  slot.value.reset();
  slot.ready.store(false, std::memory_order_relaxed);
  state_->progress.advance();
  submit_wanted();
  return item;
}

template <class T>
void OrderedProducer<T>::submit_wanted() {
  while (state_->progress.want_task()) submit(state_.share());
}

template <class T>
void OrderedProducer<T>::submit(const std::shared_ptr<State>& state) {
  state->executor->submit([state] { run(state); });
}

template <class T>
void OrderedProducer<T>::run(const std::shared_ptr<State>& state) {
  // After its turn a task moves to the end of the queue, so that one producer cannot starve the others. Where
  // none of them waits, it stays: another thread would have to be woken for it.
  constexpr std::chrono::milliseconds kTurn{1};
  auto begin = std::chrono::steady_clock::now();
  const auto turn_end = begin + kTurn;
  ProducerState& progress = state->progress;
  for (IndexRange burst = progress.first_burst(); !burst.empty(); burst = progress.next_burst()) {
    for (std::int64_t index = burst.begin; index < burst.end && !progress.stopped(); ++index)
      build(*state, index);
    const auto now = std::chrono::steady_clock::now();
    progress.set_pace((now - begin) / (burst.end - burst.begin));
    begin = now;
    if (now >= turn_end && state->executor->has_waiting() && progress.requeue()) {
      submit(state);
      return progress.end_building();
    }
  }
}

template <class T>
void OrderedProducer<T>::build(State& state, std::int64_t index) {
  Slot& slot = state.slot(index);
  StageScope work(Stage::kBuild);
  try {
    slot.value.emplace(state.make(index));
  } catch (...) {
    slot.error = std::current_exception();
  }
  work.end();
  slot.ready.store(true);
  state.progress.announce(index);
}

}  // namespace torch_distinput
