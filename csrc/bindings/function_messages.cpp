// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/function_messages.h"

#include <new>

namespace torch_distinput {
namespace {

/// Trees above this size travel in the slab, so that a ring holds many messages.
constexpr std::size_t kMaxInRing = 4096;

}  // namespace

Beside allocate_beside(WorkerEnd& lane, const Encoder& encoder, std::uint64_t lead) {
  Beside beside;
  std::uint64_t bytes = lead + encoder.bytes();
  if (encoder.tree().size() > kMaxInRing) {
    beside.tree_at = bytes;
    beside.tree_bytes = encoder.tree().size();
    bytes += beside.tree_bytes;
  }
  if (bytes == 0) return beside;
  beside.slab = lane.allocate(bytes);
  if (beside.slab == 0) throw std::bad_alloc();
  return beside;
}

void write_beside(WorkerEnd& lane, const Encoder& encoder, const Beside& beside, std::uint64_t lead) {
  if (beside.slab == 0) return;
  char* const slab = lane.at(beside.slab);
  encoder.copy_to(slab + lead);
  encoder.tree().copy(slab + beside.tree_at, beside.tree_bytes);
}

}  // namespace torch_distinput
