// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "core/interrupt_watch.h"
#include "distribute/coordination/peer_link.h"

namespace torch_distinput {

/// What `make` returns, a step on the way to an iterator that `link` binds to those of other ranks. What it
/// throws is told to them: they would wait for this rank until their time limit is over, and never hear why.
template <class Make>
auto report_failure_to_peers(PeerLink& link, Make make) {
  const InterruptWatch watch;
  try {
    return make();
  } catch (...) {
    if (!watch.interrupt()) link.fail_unopened(std::current_exception());
    throw;
  }
}

/// The same for a dataset that is being made. `peers`: null in a single process.
template <class Make>
auto report_failure_to_peers(const PeersPtr& peers, double peer_timeout, Make make) {
  if (!peers) return make();
  PeerLink link(std::make_shared<HandshakeKeys>(peers), peer_timeout);
  return report_failure_to_peers(link, std::move(make));
}

}  // namespace torch_distinput
