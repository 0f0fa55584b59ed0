// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace torch_distinput {

class FunctionProcesses;
class ProcessFunction;

/// The processes that run functions in one run of a pipeline: all epochs share them. Safe from any thread.
class KeptProcesses {
 public:
  /// Those of `function`, which are opened at the first call.
  std::shared_ptr<FunctionProcesses> of(const ProcessFunction& function);
  /// Gives up those of a function that is destroyed, such as one of a dataset that was an element.
  void drop(const ProcessFunction& function);
  /// Gives up all.
  void end();

 private:
  std::mutex mutex_;
  std::map<const ProcessFunction*, std::shared_ptr<FunctionProcesses>> processes_;
};

}  // namespace torch_distinput
