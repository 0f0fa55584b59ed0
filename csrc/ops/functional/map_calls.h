// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "base/process_owned.h"
#include "ops/functional/map_function.h"
#include "ops/functional/map_input.h"
#include "runtime/executor.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// One call of the function of a `map`, for consecutive elements: one, or where other processes run the
/// function as many as are worth a message.
struct MapCall {
  /// kWaiting until a thread claims the call.
  enum class Phase { kWaiting, kRunning, kDone };

  bool delivered() const { return next == elements.size(); }

  State before;  ///< the input's state before the first element

  // An entry for each element.
  std::vector<std::int64_t> numbers;       ///< in the dataset
  std::vector<Element> elements;           ///< the arguments; the results once the call is done
  std::vector<std::exception_ptr> errors;  ///< what was thrown for it; null: nothing

  std::size_t next = 0;           ///< the element that is delivered next; used by the consumer only
  Phase phase = Phase::kWaiting;  ///< guarded by the mutex of the MapRunner
};
/// Shared by the consumer and the task that runs the call.
using MapCallPtr = std::shared_ptr<MapCall>;

/// Runs calls on an executor. One consumer thread at a time.
class MapRunner {
 public:
  /// With `helps`, a thread that waits runs a call itself if no other thread has claimed it.
  MapRunner(std::shared_ptr<const MapFunction> function, std::shared_ptr<Executor> executor, bool helps);
  /// Starts no further call, and waits for those that run.
  ~MapRunner();
  MapRunner(const MapRunner&) = delete;
  MapRunner& operator=(const MapRunner&) = delete;

  /// Queues `call`, if the executor has threads.
  void start(MapCallPtr call);
  /// Returns when `call` is done. Looks for interrupts; they lose no call.
  void finish(MapCall& call);
  /// Waits until one of `calls` is done that is not delivered, and returns the oldest such one. Looks for
  /// interrupts. REQUIRES: one of them is not delivered.
  MapCallPtr finish_any(const std::deque<MapCallPtr>& calls);

 private:
  struct Shared {
    std::shared_ptr<const MapFunction> function;

    // Guards the members below, and the phase of every call.
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t running = 0;
    bool stopped = false;
  };
  static bool claim(Shared& shared, MapCall& call);
  static void run(Shared& shared, MapCall& call) noexcept;
  void help(MapCall& call);

  ProcessOwned<Shared> shared_;
  std::shared_ptr<Executor> executor_;
  bool helps_;
};

/// The input of a parallel `map`, and the calls under way, oldest first. One thread at a time.
class MapCalls {
 public:
  /// Keeps at least `calls` calls under way: a user function runs on `calls` threads of its own, which start
  /// at the first `fill`, a native one on `arena`.
  MapCalls(IteratorPtr input, std::shared_ptr<const MapFunction> function, std::int64_t calls,
           std::shared_ptr<Executor> arena);
  ~MapCalls() { stop(); }
  MapCalls(const MapCalls&) = delete;
  MapCalls& operator=(const MapCalls&) = delete;

  /// Reads elements and starts their calls until enough are under way. An error of the input is thrown after
  /// the calls before it have been delivered.
  void fill();
  /// Waits for the oldest call and returns it; null at the end.
  MapCallPtr oldest();
  /// Waits for any call that is not delivered and returns it; null at the end.
  MapCallPtr any();
  /// Marks the next element of a returned call as delivered. A call whose elements are all delivered is
  /// removed from the list once no older one is in it.
  void deliver_next(MapCall& call);

  /// The state of a MapInput for which the calls under way have not been read.
  State save() const;
  /// Stops all calls, then restores the input.
  void load(const State& state);

 private:
  bool full() const;
  void read();
  /// Appends the next element of the input to `call`; false at the end and after an error of the input.
  bool read_into(MapCall& call);
  void stop();

  MapInput input_;
  std::shared_ptr<const MapFunction> function_;
  std::int64_t limit_;    ///< the most calls under way
  std::int64_t threads_;  ///< threads for a user function; 0 if the arena runs the calls
  std::shared_ptr<Executor> arena_;

  std::deque<MapCallPtr> calls_;
  std::int64_t undelivered_ = 0;
  bool ended_ = false;
  std::exception_ptr input_error_;
  std::unique_ptr<MapRunner> runner_;  ///< null before the first `fill`
};

}  // namespace torch_distinput
