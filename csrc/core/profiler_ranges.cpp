// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/profiler_ranges.h"

#include <ATen/record_function.h>

#include <exception>
#include <memory>

#include "base/stage.h"

namespace torch_distinput {
namespace {

const char* range_name(Stage stage) noexcept {
  switch (stage) {
    case Stage::kNext:
      return "tdi::next";
    case Stage::kBuild:
      return "tdi::build";
    case Stage::kRead:
      return "tdi::read";
    case Stage::kPython:
      return "tdi::python";
    case Stage::kCopy:
      return "tdi::copy";
    case Stage::kWait:
      break;
  }
  return "tdi::wait";
}

void* begin_range(Stage stage) noexcept {
  try {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (!callbacks) return nullptr;
    auto range = std::make_unique<at::RecordFunction>(*std::move(callbacks));
    range->before(range_name(stage));
    return range.release();
  } catch (const std::exception&) {
    return nullptr;  // the work goes on unseen
  }
}

void end_range(void* range) noexcept { delete static_cast<at::RecordFunction*>(range); }

constexpr StageObserver kProfiler{begin_range, end_range};

}  // namespace

void show_stages_to_profiler() noexcept { set_stage_observer(&kProfiler); }

}  // namespace torch_distinput
