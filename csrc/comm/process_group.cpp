// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/process_group.h"

#include <utility>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/shared_slot.h"

namespace torch_distinput {

ProcessGroup::ProcessGroup() : shared_(std::make_shared<SharedSlot>()) {}

ProcessGroup::ProcessGroup(c10d::Store& shared, int rank_in_group, int ranks, std::string group_name)
    : ProcessGroup() {
  rank = rank_in_group;
  size = ranks;
  name = std::move(group_name);
  TORCH_CHECK_VALUE(size >= 1, "ProcessGroup: `size` must be at least 1, but is ", size, ".");
  TORCH_CHECK_VALUE(rank >= 0 && rank < size, "ProcessGroup: `rank` must be in [0, ", size, "), but is ",
                    rank, ".");
  TORCH_CHECK_VALUE(!name.empty(), "ProcessGroup: `name` must not be empty.");
  auto owner = c10::intrusive_ptr<c10d::Store>::reclaim_copy(&shared);
  store = {&shared, [owner = std::move(owner)](c10d::Store*) {}};
}

namespace {

c10d::Store& store_of(const c10d::ProcessGroup& group) {
  TORCH_CHECK_VALUE(group.getStore(), "ProcessGroup: `group` must have a store.");
  return *group.getStore();
}

}  // namespace

ProcessGroup::ProcessGroup(c10d::ProcessGroup& group, std::string group_name)
    : ProcessGroup(store_of(group), group.getRank(), group.getSize(), std::move(group_name)) {}

}  // namespace torch_distinput
