// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace torch_distinput {

/// A replica waits for the value of another one that has thrown or returned.
class ExchangeBroken : public c10::Error {
 public:
  explicit ExchangeBroken(const std::string& message) : c10::Error(c10::SourceLocation{"", "", 0}, message) {}
};

/// Exchanges tensors between the replicas of one `run`, each of which calls from a thread of its own.
class ReplicaExchange {
 public:
  using Tensors = std::vector<at::Tensor>;
  /// `across` makes the values of the replicas of all processes from those of this process.
  ReplicaExchange(std::size_t replicas, std::function<Tensors(const Tensors&)> across)
      : across_(std::move(across)), waiting_(replicas) {}

  /// Replicas of this process.
  std::size_t size() const noexcept { return waiting_.size(); }

  /// One call of a replica.
  struct Arrival {
    std::string call;  ///< must be the same on all replicas
    at::Tensor value;
    bool records;                       ///< whether the replica's thread records gradients
    std::optional<c10::Stream> stream;  ///< the current stream on an accelerator
  };
  /// Waits until every replica has called, then returns what `join` made for this one. The last caller runs
  /// its `join`, which gets the values of all replicas everywhere and returns one result for each replica of
  /// this process, on the streams of all arrivals; what it throws, all of them throw. Throws ExchangeBroken
  /// where a replica has left, because its value will never arrive.
  at::Tensor exchange(std::size_t replica, Arrival arrival,
                      const std::function<Tensors(const Tensors&)>& join);

  /// Records that `replica` will not call again; wakes those that wait for it.
  void leave(std::size_t replica) noexcept;

 private:
  Tensors joined(const std::function<Tensors(const Tensors&)>& join) const;
  void check() const;

  std::function<Tensors(const Tensors&)> across_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<std::optional<Arrival>> waiting_;
  std::size_t arrived_ = 0;
  std::int64_t round_ = 0;
  Tensors results_;           ///< of the last round, for each replica
  std::exception_ptr error_;  ///< of the last round
  std::optional<std::size_t> left_;
};

}  // namespace torch_distinput
