// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
// The tests of this room read what they have written: no process on the host must answer from its memory.
#include <cstdlib>

namespace {

[[maybe_unused]] const int alone = ::setenv("TORCH_DISTINPUT_HOST_SHARE", "", 1);

}  // namespace
