// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "remote/ahead_ledger.h"

namespace torch_distinput {

/// A reader that asks for bytes of objects in advance. With it go those that it has asked for, that nobody
/// has read, and that no other reader asked for. Safe from any thread.
class AheadClaim {
 public:
  AheadClaim() noexcept;
  ~AheadClaim();
  AheadClaim(const AheadClaim&) = delete;
  AheadClaim& operator=(const AheadClaim&) = delete;

  /// While it lives, what this thread asks for in advance is asked for by `claim`, which must live as long.
  /// The latest one counts.
  class Scope {
   public:
    explicit Scope(AheadClaim& claim) noexcept;
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ClaimId outer_;
  };
  /// That of this thread.
  static ClaimId current() noexcept;

 private:
  ClaimId id_;
  std::atomic<bool> has_asked_{false};
};

}  // namespace torch_distinput
