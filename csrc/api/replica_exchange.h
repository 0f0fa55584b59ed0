// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "api/replica_run.h"

namespace torch_distinput {

/// Exchanges tensors between the replicas of one `run`, each of which calls from a thread of its own.
class ReplicaExchange {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Join = std::function<Tensors(const Tensors&)>;

  /// `across` makes the values of the replicas of all processes from those of this process.
  ReplicaExchange(ReplicaRun& run, Join across)
      : run_(run), across_(std::move(across)), calls_(run.size()), values_(run.size()) {}

  /// Replicas of this process.
  std::size_t size() const noexcept { return run_.size(); }

  /// Meets the other replicas, whose `call` must be the same, and returns what `join` made for this one.
  /// `join` gets the values of all replicas everywhere and returns one result for each replica of this
  /// process. Throws as `ReplicaRun::meet` does.
  at::Tensor exchange(std::size_t replica, std::string call, at::Tensor value, const Join& join);

 private:
  Tensors joined(const Join& join) const;

  ReplicaRun& run_;
  Join across_;
  // By replica; each replica's entries are its own until it meets the others.
  std::vector<std::string> calls_;
  Tensors values_;
  Tensors results_;
};

}  // namespace torch_distinput
