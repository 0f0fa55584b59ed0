// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/polling.h"
#include "io/host_share.h"

/// \file
/// What one rank of a job has asked a store for, for the other ranks of the job on this host: lists and other
/// answers that have no version which could name them.

namespace torch_distinput {

/// What only the ranks of this job on this host have in common: they are children of one process, which a
/// launcher has told that there are several of them. nullopt in other programs. Safe from any thread that
/// does not change the environment.
std::optional<std::string> job_on_host();

/// Returns once `accept` has accepted the bytes that another rank of the job on this host has made for the
/// same call, or else once `make` has made them. The n-th call for `what` in one rank is the same call as
/// the n-th of the others, and what was made more than a minute ago is made again: so a rank that asks again
/// gets a new answer. In other programs it only calls `make`. Waits as `share_on_host`. Safe from any thread.
void share_in_job(const std::string& what, std::uint64_t most, const SharedEntry::Accept& accept,
                  const MakeShared& make, const Poll& poll);

}  // namespace torch_distinput
