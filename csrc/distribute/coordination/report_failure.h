// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "core/interrupt_watch.h"
#include "distribute/coordination/peer_link.h"

namespace torch_distinput {

/// Returns `make()`, which prepares an iterator that `link` connects with those of other ranks. Reports an
/// exception of `make`, except an interrupt, to these ranks, which would otherwise wait for this one until
/// their timeout and not learn why; then throws it.
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

/// The same for `make` that makes a dataset. `peers`: null in a single process.
template <class Make>
auto report_failure_to_peers(const PeersPtr& peers, double peer_timeout, Make make) {
  if (!peers) return make();
  PeerLink link(std::make_shared<HandshakeKeys>(peers), peer_timeout, peer_timeout);
  return report_failure_to_peers(link, std::move(make));
}

}  // namespace torch_distinput
