// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "torch_distinput/api.h"

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace torch_distinput {

/// Processes that share one dataset, as one of them sees them. All that the library needs of c10d is a store
/// that every one of them reaches.
struct TDI_API ProcessGroup {
  /// `store` must outlive the group; `rank` is in [0, size). `name` keeps groups on one store apart: it is
  /// the same in all processes of the group and in no other group. Where processes are restarted it may stay:
  /// what earlier ones left in the store means nothing.
  ProcessGroup(c10d::Store& store, int rank, int size, std::string name = "group");

  /// A connection of the library's own, so that its calls never wait for the user's.
  std::shared_ptr<c10d::Store> store;
  int rank;
  int size;
  std::string name;

  /// Makes a group of the library's own, such as gloo's, in which only `name` tells it from others; every
  /// rank calls it at the same time, and it gives up after `timeout`.
  using MakeGroup = std::function<c10::intrusive_ptr<c10d::ProcessGroup>(
      const std::string& name, std::chrono::duration<double> timeout)>;
  /// Where set, the rounds that keep streams of several processes together are collectives of such a group
  /// instead of texts in the store: the store then carries no load that grows with the number of ranks.
  MakeGroup make_group = {};
};

}  // namespace torch_distinput
