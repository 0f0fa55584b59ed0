// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bindings/function_messages.h"
#include "workers/consumer_end.h"
#include "workers/worker_end.h"

namespace torch_distinput {

/// A call of a function in another process.
struct FunctionCall {
  std::vector<std::int64_t> numbers;  ///< of its rows
  int process;
  std::uint64_t slab;
  std::optional<Arrived> result;  ///< guarded by the mutex of the link
  std::int64_t nanoseconds;       ///< likewise: that it took
};
using FunctionCallPtr = std::shared_ptr<FunctionCall>;

/// How a process has ended.
struct EndedProcess {
  int process;
  std::string how;  ///< `(pid 123) was killed by SIGKILL`
};

/// The end of the process that calls a function in others: sends calls to those with the fewest rows, and
/// hands out results. Safe from any thread. Of the threads that wait, one listens for all of them.
class FunctionLink {
 public:
  /// `ended()` returns a process that has ended; it is called without locks, on a thread that waits. `op`
  /// begins the messages. Throws std::system_error where the system has no such memory.
  FunctionLink(int processes, std::function<std::vector<EndedProcess>()> ended, std::string op);

  const std::shared_ptr<WorkerMemory>& memory() const noexcept { return end_.memory(); }

  /// Sends rows with these numbers, whose arguments `arguments` holds. Throws LostProcessError, and
  /// std::bad_alloc where the shared memory is used up. REQUIRES: the GIL.
  FunctionCallPtr send(const Encoder& arguments, std::uint64_t key, std::vector<std::int64_t> numbers);
  /// Waits for the result. Throws LostProcessError and what this thread's `interrupt_check` throws. Without
  /// the GIL. A call that nobody waits for is dropped when its result comes.
  Arrived wait_for(FunctionCall& call);
  /// Gives back the memory that nothing uses; call it when no process runs any more.
  void end() { end_.slabs()->end(); }

 private:
  using Clock = std::chrono::steady_clock;

  int least_busy() const;
  void listen(std::unique_lock<std::mutex>& lock);
  bool receive();
  void look_for_losses();
  std::string loss(const FunctionCall& call, const std::string& how);

  std::function<std::vector<EndedProcess>()> ended_;
  std::string op_;

  std::mutex mutex_;
  std::condition_variable changed_;
  ConsumerEnd end_;
  std::vector<WorkerEnd> tasks_;  ///< for each process the lane of its tasks
  std::map<std::uint64_t, FunctionCallPtr> calls_;
  std::vector<std::int64_t> rows_;  ///< under way, of each process
  std::uint64_t next_ = 0;
  bool listening_ = false;
  Clock::time_point looked_ = Clock::now();
  std::optional<std::string> lost_;
};

}  // namespace torch_distinput
