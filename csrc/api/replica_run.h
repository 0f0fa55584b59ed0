// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ThreadLocalState.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// A replica waits for another one that has raised or returned.
class TDI_API ExchangeBroken : public c10::Error {
 public:
  explicit ExchangeBroken(const std::string& message) : c10::Error(c10::SourceLocation{"", "", 0}, message) {}
};

/// One `run` of a strategy, on threads that the caller provides: what its replicas inherit from the caller,
/// and where they meet. Safe from any thread.
class TDI_API ReplicaRun {
 public:
  /// Remembers the state of this thread: grad and inference mode, autocast, torch's modes and hooks, and the
  /// current stream of each of `devices`, one for each replica. Replicas on a CPU inherit the current stream
  /// of `accelerator`, if there is one.
  explicit ReplicaRun(std::vector<c10::Device> devices, std::optional<c10::Device> accelerator = {});

  /// Replicas of this process.
  std::size_t size() const noexcept { return devices_.size(); }

  /// Calls `function` on this thread as `replica`, with the remembered state. Afterwards, the replica has
  /// left.
  void call(std::size_t replica, const std::function<void()>& function);

  /// Waits until every replica has called. The last one runs its `join` for all of them, on the streams that
  /// are current in their threads; gradients are recorded if one of these threads does. What `join` throws,
  /// every call throws. Throws ExchangeBroken where a replica has left.
  void meet(std::size_t replica, const std::function<void()>& join);

  /// Whether the thread of `replica` records gradients. Only for a `join`.
  bool records(std::size_t replica) const { return arrivals_[replica].records; }

  /// Records that `replica` will not meet the others again; wakes those that wait for it.
  void leave(std::size_t replica) noexcept;

 private:
  struct Arrival {
    bool records = false;
    std::optional<c10::Stream> stream;  ///< of an accelerator
  };
  void run_for_all(const std::function<void()>& join) const;
  void check() const;

  const std::vector<c10::Device> devices_;
  const at::ThreadLocalState caller_;
  const bool caller_caches_casts_;
  std::vector<std::optional<c10::Stream>> streams_;  ///< the caller's, by replica

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<Arrival> arrivals_;
  std::size_t arrived_ = 0;
  std::int64_t round_ = 0;
  std::exception_ptr error_;  ///< of the last round, until every replica has it
  std::size_t with_error_ = 0;
  std::optional<std::size_t> left_;
};

}  // namespace torch_distinput
