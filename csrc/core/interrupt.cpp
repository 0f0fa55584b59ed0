// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/interrupt.h"

#include <utility>

namespace torch_distinput {
namespace {

const std::function<void()> kNoCheck;
thread_local const std::function<void()>* current = &kNoCheck;

}  // namespace

InterruptScope::InterruptScope(std::function<void()> check)
    : check_(std::move(check)), outer_(std::exchange(current, &check_)) {}

InterruptScope::~InterruptScope() { current = outer_; }

const std::function<void()>& interrupt_check() { return *current; }

}  // namespace torch_distinput
