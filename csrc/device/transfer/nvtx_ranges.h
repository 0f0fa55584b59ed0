// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch_distinput {

/// Shows the stages of all threads as NVTX ranges, such as "tdi::read", where a tool that reads them (Nsight
/// Systems) has started this process and the CUDA library is there. Looks once; without such a tool, stages
/// cost nothing more. Safe from any thread.
void show_stages_to_nvtx();

}  // namespace torch_distinput
