// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "execution/execution_context.h"
#include "torch_distinput/function.h"
#include "torch_distinput/process_function.h"

namespace torch_distinput {

/// Whether an op's function runs in other processes, and in which runs of a pipeline it has any: they end
/// with the run or with the op. Safe from any thread.
class FunctionRuns {
 public:
  explicit FunctionRuns(FunctionPtr function);
  ~FunctionRuns();
  FunctionRuns(const FunctionRuns&) = delete;
  FunctionRuns& operator=(const FunctionRuns&) = delete;

  /// How many processes the function asks for; 0: it runs in this one.
  std::int64_t asked() const { return elsewhere_ == nullptr ? 0 : elsewhere_->processes(); }
  /// Whether these are the workers of an executor.
  bool in_executor() const { return elsewhere_ != nullptr && elsewhere_->in_executor(); }
  /// As `asked`, but 0 where this process may have no children.
  std::int64_t count() const { return asked() > 0 && elsewhere_->may_open() ? asked() : 0; }
  /// Those of a run; null where `count()` is 0.
  std::shared_ptr<FunctionProcesses> of(const ExecutionContext& execution) const;

 private:
  FunctionPtr function_;
  const ProcessFunction* elsewhere_;  ///< `function_`, or null

  mutable std::mutex mutex_;
  mutable std::vector<std::weak_ptr<KeptProcesses>> runs_;
};

}  // namespace torch_distinput
