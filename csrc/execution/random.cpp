// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/random.h"

#include <ATen/CPUGeneratorImpl.h>

#include "runtime/mix_keys.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

thread_local RowScope* innermost = nullptr;

}  // namespace

RowScope::RowScope(std::uint64_t key, std::span<const std::int64_t> numbers) noexcept
    : key_(key), numbers_(numbers), outer_(innermost) {
  innermost = this;
}

RowScope::~RowScope() { innermost = outer_; }

void RowScope::enter(std::size_t index) noexcept {
  if (innermost == nullptr) return;
  innermost->entered_ = true;
  if (innermost->index_ == index) return;
  innermost->index_ = index;
  innermost->generator_.reset();
}

std::optional<std::int64_t> RowScope::number() const noexcept {
  if (index_ >= numbers_.size() || (!entered_ && numbers_.size() > 1)) return std::nullopt;
  return numbers_[index_];
}

std::int64_t RowScope::current_number() noexcept { return innermost->numbers_[innermost->index_]; }

at::Generator random() {
  RowScope* const scope = innermost;
  if (scope == nullptr || scope->index_ >= scope->numbers_.size()) {
    throw FailedPreconditionError(
        "random: there is no current row; call it inside a function that map, filter, flat_map or "
        "interleave runs, on the thread that the function was called on.");
  }
  if (!scope->generator_) {
    const auto number = static_cast<std::uint64_t>(scope->numbers_[scope->index_]);
    scope->generator_ = at::detail::createCPUGenerator(mix_keys(scope->key_, number));
  }
  return *scope->generator_;
}

}  // namespace torch_distinput
