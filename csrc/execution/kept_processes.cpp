// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/kept_processes.h"

#include <utility>

#include "torch_distinput/process_function.h"

namespace torch_distinput {

std::shared_ptr<FunctionProcesses> KeptProcesses::of(const ProcessFunction& function) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<FunctionProcesses>& processes = processes_[&function];
  if (processes == nullptr) processes = function.open();
  return processes;
}

void KeptProcesses::drop(const ProcessFunction& function) {
  std::shared_ptr<FunctionProcesses> dropped;  // without the lock: they may take a while to end
  const std::lock_guard lock(mutex_);
  const auto found = processes_.find(&function);
  if (found == processes_.end()) return;
  dropped = std::move(found->second);
  processes_.erase(found);
}

void KeptProcesses::end() {
  std::map<const ProcessFunction*, std::shared_ptr<FunctionProcesses>> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(processes_);
}

}  // namespace torch_distinput
