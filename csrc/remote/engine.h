// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/process_owned.h"
#include "remote/fetch_schedule.h"
#include "remote/transfer.h"
#include "torch_distinput/api.h"

namespace torch_distinput {

/// What the engine has done since it was made.
struct EngineCounts {
  FetchCounts fetches;
  std::int64_t body_bytes = 0;    ///< of bodies that were taken
  std::int64_t wasted_bytes = 0;  ///< of bodies that were not
  int limit = 0;                  ///< requests that may run at a time now, at the server that is asked most

  /// Takes away what was counted at a moment `before`; the limit remains.
  EngineCounts& operator-=(const EngineCounts& before) noexcept {
    fetches -= before.fetches;
    body_bytes -= before.body_bytes;
    wasted_bytes -= before.wasted_bytes;
    return *this;
  }
};

/// What is known of a server.
struct ServerView {
  int limit = 0;               ///< requests that may run at a time
  Nanos median_answer = 0;     ///< time to the first byte; 0: not known yet
  Nanos late_answer = 0;       ///< that of 99 in 100
  double connection_rate = 0;  ///< bytes a second of one connection; 0: not known yet
};

/// Carries out transfers on a thread of its own. One for the process, `of_process`; a forked child has its
/// own, which begins without connections and touches nothing of its parent's. Safe from any thread.
class Engine {
 public:
  /// The engine of this process. Throws std::runtime_error where there is no libcurl.
  static Engine& of_process();
  /// The counts of the engine of this process; zeros before it is made.
  static EngineCounts counts_of_process();

  explicit Engine(FetchRules rules = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Ends all transfers with an error, also those that begin later, and the thread. The destructor does the
  /// same.
  void end();

  /// Begins a transfer; its `finish` will be called.
  FetchId begin(TransferPtr transfer);
  /// Somebody waits for it: it goes before those that nobody waits for.
  void urge(FetchId fetch);
  /// Nobody wants it any more: its `finish` is called with an error, unless it is over.
  void drop(FetchId fetch);

  EngineCounts counts() const;
  ServerView server(const std::string& origin) const;

 private:
  struct State;
  ProcessOwned<State> state_;
  std::unique_ptr<class WorkerThread> thread_;
};

}  // namespace torch_distinput
