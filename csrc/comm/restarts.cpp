// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/restarts.h"

#include <cstdlib>
#include <string_view>

namespace torch_distinput {
namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

}  // namespace

bool starts_share_store() { return variable("TORCHELASTIC_USE_AGENT_STORE") == "True"; }

std::string advice_after_restart() {
  const std::string_view restarts = variable("TORCHELASTIC_RESTART_COUNT");
  if (restarts.empty() || restarts == "0" || !starts_share_store()) return "";
  return " This is start " + std::string(restarts) +
         " after the first one of torchrun, which gives all starts one store: if addresses of processes that "
         "died break the group, start torchrun with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in its environment.";
}

}  // namespace torch_distinput
