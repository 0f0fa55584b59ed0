// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>

#include "base/process_owned.h"
#include "ops/functional/map_function.h"
#include "ops/functional/map_input.h"
#include "runtime/executor.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// One element on its way through the function of a `map`.
struct MapCall {
  enum class Phase { kWaiting, kRunning, kDone };

  State before;  ///< the input's position before the element
  std::int64_t number;
  Element element;           ///< the result once the call is done
  std::exception_ptr error;  ///< what the call threw
  bool delivered = false;    ///< for the consumer's use
  Phase phase = Phase::kWaiting;
};
using MapCallPtr = std::shared_ptr<MapCall>;

/// Runs calls on an executor. One thread at a time uses it.
class MapRunner {
 public:
  /// `helps`: the waiting thread itself runs a call that nobody has begun.
  MapRunner(std::shared_ptr<const MapFunction> function, std::shared_ptr<Executor> executor, bool helps);
  /// Begins no further call and waits for those that run.
  ~MapRunner();
  MapRunner(const MapRunner&) = delete;
  MapRunner& operator=(const MapRunner&) = delete;

  void start(MapCallPtr call);
  /// Returns when `call` is done. Looks for interrupts; they lose nothing.
  void finish(MapCall& call);
  /// Waits until one of `calls` that is not delivered is done and returns it, the oldest first.
  MapCallPtr finish_any(const std::deque<MapCallPtr>& calls);

 private:
  struct Shared {
    std::shared_ptr<const MapFunction> function;

    // Guards the members below and the phase of every call.
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t running = 0;
    bool stopped = false;
  };
  static bool claim(Shared& shared, MapCall& call);
  static void run(Shared& shared, MapCall& call) noexcept;

  ProcessOwned<Shared> shared_;
  std::shared_ptr<Executor> executor_;
  bool helps_;
};

/// The input of a parallel `map` and the calls under way, oldest first. One thread
/// at a time. Threads start with the first `fill`.
class MapCalls {
 public:
  MapCalls(IteratorPtr input, std::shared_ptr<const MapFunction> function, std::int64_t calls,
           std::shared_ptr<Executor> arena);
  ~MapCalls() { stop(); }
  MapCalls(const MapCalls&) = delete;
  MapCalls& operator=(const MapCalls&) = delete;

  /// Reads and starts elements until `calls` are under way. An error of the input
  /// is kept until the calls before it are delivered, then thrown.
  void fill();
  /// The oldest call, done; null at the end.
  MapCallPtr oldest();
  /// Any call that is done and not delivered; null at the end.
  MapCallPtr any();
  /// Takes a call that was returned off the list, or marks it if older ones are under way.
  void deliver(MapCall& call);

  /// As `MapInput::save`, with the calls under way as not read yet.
  State save() const;
  void load(const State& state);

 private:
  bool full() const;
  void read();
  void stop();

  MapInput input_;
  std::shared_ptr<const MapFunction> function_;
  std::int64_t limit_;    ///< calls under way
  std::int64_t threads_;  ///< threads for a user function; 0: the arena
  std::shared_ptr<Executor> arena_;

  std::deque<MapCallPtr> calls_;
  std::int64_t undelivered_ = 0;
  bool ended_ = false;
  std::exception_ptr input_error_;
  std::unique_ptr<MapRunner> runner_;  ///< null before the first `fill`
};

}  // namespace torch_distinput
