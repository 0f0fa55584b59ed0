// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/functional/map_calls.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/polling.h"
#include "base/stage.h"
#include "core/interrupt_watch.h"
#include "core/stop_scope.h"
#include "runtime/worker_thread.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

/// While the oldest call hangs, the list of calls may grow to this multiple of the calls under way.
constexpr std::int64_t kMaxAhead = 16;
/// How long elements are read for one call, so that those of a slow input are not held back.
constexpr std::chrono::milliseconds kReadTime{2};

}  // namespace

MapRunner::MapRunner(std::shared_ptr<const MapFunction> function, std::shared_ptr<Executor> executor,
                     bool helps)
    : shared_(std::make_shared<Shared>()), executor_(std::move(executor)), helps_(helps) {
  shared_->function = std::move(function);
}

MapRunner::~MapRunner() {
  if (shared_.inherited()) return;
  std::unique_lock lock(shared_->mutex);
  shared_->stopped = true;
  shared_->changed.wait(lock, [this] { return shared_->running == 0; });
  // A queued task may keep `shared_` alive for long; the user's function must be released now.
  shared_->function = nullptr;
}

void MapRunner::start(MapCallPtr call) {
  if (executor_->concurrency() == 0) return;
  executor_->submit([shared = shared_.share(), call = std::move(call)] {
    if (!claim(*shared, *call)) return;
    const StopScope scope([&shared] {
      const std::lock_guard lock(shared->mutex);
      return shared->stopped;
    });
    run(*shared, *call);
  });
}

bool MapRunner::claim(Shared& shared, MapCall& call) {
  const std::lock_guard lock(shared.mutex);
  if (shared.stopped || call.phase != MapCall::Phase::kWaiting) return false;
  call.phase = MapCall::Phase::kRunning;
  ++shared.running;
  return true;
}

void MapRunner::run(Shared& shared, MapCall& call) noexcept {
  StageScope work(Stage::kBuild);
  try {
    call.errors = shared.function->try_each(call.elements, call.numbers);
  } catch (...) {
    call.errors.assign(call.elements.size(), std::current_exception());
  }
  work.end();
  const std::lock_guard lock(shared.mutex);
  call.phase = MapCall::Phase::kDone;
  --shared.running;
  shared.changed.notify_all();
}

/// An interrupt of a wait for other processes loses nothing: they got copies, so that the call can run again.
void MapRunner::help(MapCall& call) {
  if (!claim(*shared_, call)) return;
  std::vector<Element> arguments = call.elements;
  const InterruptWatch watch;
  run(*shared_, call);
  if (!watch.interrupt() || !shared_->function->runs_elsewhere()) return;
  const std::lock_guard lock(shared_->mutex);
  call.elements = std::move(arguments);
  call.phase = MapCall::Phase::kWaiting;
  std::rethrow_exception(watch.interrupt());
}

void MapRunner::finish(MapCall& call) {
  if (helps_) help(call);
  std::unique_lock lock(shared_->mutex);
  wait_polling(shared_->changed, lock, interrupt_check(),
               [&] { return call.phase == MapCall::Phase::kDone; });
}

MapCallPtr MapRunner::finish_any(const std::deque<MapCallPtr>& calls) {
  const auto find = [&](MapCall::Phase phase) {
    const auto found = std::find_if(calls.begin(), calls.end(), [&](const MapCallPtr& call) {
      return !call->delivered() && call->phase == phase;
    });
    return found == calls.end() ? nullptr : *found;
  };
  std::unique_lock lock(shared_->mutex);
  MapCallPtr done = find(MapCall::Phase::kDone);
  MapCallPtr waiting = done == nullptr && helps_ ? find(MapCall::Phase::kWaiting) : nullptr;
  if (waiting != nullptr) {
    lock.unlock();
    finish(*waiting);
    return waiting;
  }
  wait_polling(shared_->changed, lock, interrupt_check(), [&] {
    if (done == nullptr) done = find(MapCall::Phase::kDone);
    return done != nullptr;
  });
  return done;
}

MapCalls::MapCalls(IteratorPtr input, std::shared_ptr<const MapFunction> function, std::int64_t calls,
                   std::shared_ptr<Executor> arena)
    : input_(std::move(input)), function_(std::move(function)), arena_(std::move(arena)) {
  threads_ = function_->runs_user_code() && arena_->concurrency() > 0 ? calls : 0;
  // The pool runs one call on each thread. As many again wait in its queue, so that no thread runs out of
  // work.
  limit_ = threads_ > 0 ? 2 * calls : calls;
}

void MapCalls::fill() {
  if (runner_ == nullptr) {
    auto executor = threads_ > 0 ? make_thread_pool(static_cast<int>(threads_), kMapThreads) : arena_;
    runner_ = std::make_unique<MapRunner>(function_, std::move(executor), /*helps=*/threads_ == 0);
  }
  while (!ended_ && !input_error_ && !full()) read();
  if (input_error_ && undelivered_ == 0) std::rethrow_exception(input_error_);
}

bool MapCalls::full() const {
  return undelivered_ == limit_ || static_cast<std::int64_t>(calls_.size()) >= kMaxAhead * limit_;
}

void MapCalls::read() {
  auto call = std::make_shared<MapCall>();
  call->before = input_.save();
  const std::int64_t most = function_->worth_a_call();
  const auto end = std::chrono::steady_clock::now() + kReadTime;
  std::int64_t bytes = 0;
  std::exception_ptr interrupt;  // what was read before it is kept
  try {
    while (read_into(*call)) {
      bytes += call->elements.back().bytes();
      if (std::ssize(call->elements) >= most || bytes >= kMostBytesOfCall) break;
      if (std::chrono::steady_clock::now() >= end) break;
    }
  } catch (...) {
    interrupt = std::current_exception();
  }
  if (!call->elements.empty()) {
    calls_.push_back(call);
    ++undelivered_;
    runner_->start(std::move(call));
  }
  if (interrupt) std::rethrow_exception(interrupt);
}

bool MapCalls::read_into(MapCall& call) {
  const InterruptWatch watch;
  try {
    std::optional<MapInput::Item> item = input_.next();
    ended_ = !item.has_value();
    if (ended_) return false;
    call.numbers.push_back(item->number);
    call.elements.push_back(std::move(item->element));
  } catch (...) {
    if (watch.interrupt()) throw;
    input_error_ = std::current_exception();
  }
  return !input_error_;
}

MapCallPtr MapCalls::oldest() {
  if (calls_.empty()) return nullptr;
  runner_->finish(*calls_.front());
  return calls_.front();
}

MapCallPtr MapCalls::any() { return undelivered_ == 0 ? nullptr : runner_->finish_any(calls_); }

void MapCalls::deliver_next(MapCall& call) {
  ++call.next;
  if (!call.delivered()) return;
  --undelivered_;
  while (!calls_.empty() && calls_.front()->delivered()) calls_.pop_front();
}

State MapCalls::save() const {
  if (calls_.empty()) return input_.save();
  State state = calls_.front()->before;
  State::List delivered = state.at("delivered").as_list();
  for (const MapCallPtr& call : calls_)
    delivered.insert(delivered.end(), call->numbers.begin(),
                     call->numbers.begin() + std::ptrdiff_t(call->next));
  state.set("delivered", std::move(delivered));
  return state;
}

void MapCalls::stop() {
  runner_.reset();
  for (const MapCallPtr& call : calls_) call->elements.clear();
  calls_.clear();
}

void MapCalls::load(const State& state) {
  stop();
  undelivered_ = 0;
  ended_ = false;
  input_error_ = nullptr;
  input_.load(state);
}

}  // namespace torch_distinput
