// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace c10d {
class ProcessGroup;
}  // namespace c10d

namespace torch_distinput {

/// The bytes of every rank, in the order of the ranks. A collective of `group`, which waits for all its
/// ranks; must not be called with the GIL. Takes memory as bytes arrive, not as ranks announce them. Throws
/// DistributedDatasetError for a rank that announces a number of bytes that cannot be.
///
/// Used instead of torch.distributed.all_gather_object: the group's threads release its tensors some time
/// after the wait has ended, and to release a tensor that has a Python object they must take the GIL. Where
/// the interpreter is already shutting down, that ends the process with "terminate called without an active
/// exception" (pytorch issue 190489). The tensors here have no Python objects.
std::vector<std::string> gather_bytes(c10d::ProcessGroup& group, std::string_view mine);

}  // namespace torch_distinput
