// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/ahead_claim.h"

#include <utility>

namespace torch_distinput {
namespace {

ClaimId next_claim() noexcept {
  static std::atomic<ClaimId> next{1};
  return next++;
}

ClaimId& claim_of_thread() noexcept {
  thread_local ClaimId claim = 0;
  return claim;
}

}  // namespace

AheadClaim::AheadClaim() noexcept : id_(next_claim()) {}

AheadClaim::~AheadClaim() {
  if (has_asked_.load(std::memory_order_relaxed)) AheadLedger::of_process().release(id_);
}

AheadClaim::Scope::Scope(AheadClaim& claim) noexcept : outer_(std::exchange(claim_of_thread(), claim.id_)) {
  claim.has_asked_.store(true, std::memory_order_relaxed);
}

AheadClaim::Scope::~Scope() { claim_of_thread() = outer_; }

ClaimId AheadClaim::current() noexcept { return claim_of_thread(); }

}  // namespace torch_distinput
