// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "torch_distinput/api.h"
#include "torch_distinput/reduce.h"

namespace torch_distinput {

class ReplicaExchange;  // private to the library

/// The replica that a function runs as inside `Strategy::run`. Use it on that replica's thread, as long as
/// the function runs.
class TDI_API ReplicaContext {
 public:
  ReplicaContext(std::int64_t replica_id, std::int64_t num_replicas, std::size_t local_replica,
                 c10::Device device, ReplicaExchange& exchange);
  ~ReplicaContext();
  ReplicaContext(const ReplicaContext&) = delete;
  ReplicaContext& operator=(const ReplicaContext&) = delete;

  /// The index of this replica over all processes, from 0.
  std::int64_t replica_id_in_sync_group() const noexcept { return replica_id_; }
  /// Replicas of all processes.
  std::int64_t num_replicas_in_sync() const noexcept { return num_replicas_; }
  /// The index among the replicas of this process: that of a PerReplica's value and of `Strategy::devices`.
  std::size_t local_replica() const noexcept { return local_replica_; }
  /// The device of this replica.
  c10::Device device() const noexcept { return device_; }

  /// Combines the values of all replicas item by item; each gets the result on the device of its own value.
  /// Every replica must call it, in the same order as its other `all_` calls. Gradients flow to the values of
  /// this process's replicas. Throws, on every replica of the process, what `reduce` throws, c10::ValueError
  /// where replicas make different calls, and c10::Error where another one returned or threw before its call.
  at::Tensor all_reduce(ReduceOp op, const at::Tensor& value) const;
  /// The values of all replicas, one after the other along dimension `axis`; else as `all_reduce`.
  at::Tensor all_gather(const at::Tensor& value, std::int64_t axis) const;

 private:
  std::int64_t replica_id_;
  std::int64_t num_replicas_;
  std::size_t local_replica_;
  c10::Device device_;
  ReplicaExchange& exchange_;
  const ReplicaContext* outer_;
};

/// The innermost context of this thread; null outside of `Strategy::run`.
TDI_API const ReplicaContext* get_replica_context() noexcept;

}  // namespace torch_distinput
