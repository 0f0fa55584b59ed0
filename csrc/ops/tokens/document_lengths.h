// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "core/interrupt_poll.h"
#include "execution/execution_context.h"
#include "runtime/ordered_producer.h"
#include "torch_distinput/interrupt.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// The lengths of the documents of a plan. Immutable; safe from any thread.
class DocumentLengths {
 public:
  /// Those of leaf `leaf` of the elements of `plan`, which knows them.
  DocumentLengths(PlanPtr plan, std::size_t leaf, std::shared_ptr<Executor> executor)
      : plan_(std::move(plan)), leaf_(leaf), executor_(std::move(executor)) {}

  /// Number of documents, or `kEndless`.
  std::int64_t size() const { return plan_->size(); }
  /// Documents of a block that begins at `first`, of at most `most`.
  std::int64_t count(std::int64_t first, std::int64_t most) const { return std::min(most, size() - first); }
  /// The lengths of documents `first`, `first` + 1, ...
  void read(std::int64_t first, std::span<std::int64_t> lengths) const;

  /// Calls `use(make(0))`, `use(make(1))`, ... up to `count`. `make` runs on many threads, ahead of `use`.
  template <class Make, class Use>
  void for_each_in_order(std::int64_t count, const Make& make, const Use& use) const;

 private:
  PlanPtr plan_;
  std::size_t leaf_;
  std::shared_ptr<Executor> executor_;  ///< makes blocks of them side by side
};

template <class Make, class Use>
void DocumentLengths::for_each_in_order(std::int64_t count, const Make& make, const Use& use) const {
  InterruptPoll poll;
  if (count == 1 || plan_->traits().runs_user_code) {
    for (std::int64_t i = 0; i < count; ++i) {
      poll();
      use(make(i));
    }
    return;
  }
  using Made = decltype(make(count));
  const std::int64_t depth = 2 * static_cast<std::int64_t>(executor_->concurrency()) + 2;
  OrderedProducer<Made> blocks(make, 0, count, executor_, {.depth = depth});
  for (std::int64_t i = 0; i < count; ++i) {
    poll();
    use(*blocks.next(interrupt_check()));
  }
}

}  // namespace torch_distinput
