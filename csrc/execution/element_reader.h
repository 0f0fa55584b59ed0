// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "execution/remote_run.h"
#include "torch_distinput/element.h"
#include "torch_distinput/options.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// Fetches the elements of a plan one by one, in the caller's thread. Those of a remote plan are announced
/// ahead. One thread at a time.
class ElementReader {
 public:
  ElementReader(PlanPtr plan, const Options& options);

  std::int64_t size() const { return plan_->size(); }
  /// The element at `position`, in [0, size()): usually the one after the last. Throws what its fetch throws.
  Element fetch(std::int64_t position);

 private:
  Element fetch_one(std::int64_t position) const;
  void begin_remote(std::int64_t position);

  PlanPtr plan_;
  bool is_remote_;
  std::int64_t horizon_;
  std::unique_ptr<RemoteRun> remote_;  ///< null for local plans, and before the first element
  std::int64_t next_ = 0;              ///< the position after the one that was fetched last
};

}  // namespace torch_distinput
