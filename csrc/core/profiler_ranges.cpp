// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/profiler_ranges.h"

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <ATen/record_function.h>

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

std::atomic<const RangeFunctions*> other_tool{nullptr};

/// A range in torch's profiler, where one runs, and in the other tool, where there is one.
class Range {
 public:
  Range(const char* name, std::optional<at::StepCallbacks> callbacks, const RangeFunctions* tool)
      : tool_(tool) {
    if (callbacks) recorded_.emplace(*std::move(callbacks)).before(name);
    if (tool_ != nullptr) tool_->push(name);
  }
  ~Range() {
    if (tool_ != nullptr) tool_->pop();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  std::optional<at::RecordFunction> recorded_;
  const RangeFunctions* tool_;
};

void* begin_range(Stage stage) noexcept {
  try {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    const RangeFunctions* const tool = other_tool.load(std::memory_order_acquire);
    if (!callbacks && tool == nullptr) return nullptr;
    return std::make_unique<Range>(range_name(stage), std::move(callbacks), tool).release();
  } catch (const std::exception&) {
    return nullptr;  // the work goes on unseen
  }
}

void end_range(void* range) noexcept { delete static_cast<Range*>(range); }

constexpr StageObserver kProfiler{begin_range, end_range};

}  // namespace

void show_stages_to_profiler() noexcept { set_stage_observer(&kProfiler); }

void show_stages_to(RangeFunctions functions) noexcept {
  static const RangeFunctions kept = functions;
  other_tool.store(&kept, std::memory_order_release);
}

}  // namespace torch_distinput
