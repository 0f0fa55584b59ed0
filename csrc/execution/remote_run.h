// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/stop_flag.h"
#include "execution/read_announcer.h"

namespace torch_distinput {

/// What threads share that read a remote plan ahead, from one position on: the announcements, and the end of
/// their waits when what they read is no longer wanted.
struct RemoteRun {
  ReadAnnouncer announcer;
  StopFlag stop = {};
};

}  // namespace torch_distinput
