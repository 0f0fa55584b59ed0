// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <pybind11/pybind11.h>

#include "bindings/workers/encoder.h"
#include "workers/consumer_end.h"
#include "workers/worker_end.h"

/// \file
/// What a process and those that run a function for it send each other. The memory of `n` such processes has
/// 2 n lanes: process i gets tasks and sends results through the rings of lane i, the memory of its results
/// is that lane's, and that of its tasks is that of lane n + i, where the sender allocates.

namespace torch_distinput {

namespace py = pybind11;

/// The functions of the package that a message needs. Calls need the GIL.
struct MessageFunctions {
  explicit MessageFunctions(const py::object& messages)
      : pickle(messages.attr("pickle_value")),
        unpickle(messages.attr("unpickle_value")),
        pack_error(messages.attr("pack_error")),
        unpack_error(messages.attr("unpack_error")) {}

  py::object pickle;        ///< as an Encoder needs it
  py::object unpickle;      ///< as a Decoder needs it
  py::object pack_error;    ///< bytes of an exception
  py::object unpack_error;  ///< the exception
};

/// Where the part of a message lies that is not in its frame.
struct Beside {
  std::uint64_t slab = 0;     ///< 0: none
  std::uint64_t tree_at = 0;  ///< offset of the tree in the slab, where `tree_bytes` is not 0
  std::uint64_t tree_bytes = 0;
};

/// What a task's frame begins with. The numbers of its rows follow, then the tree where it is not in the
/// slab: for each row a tuple of arguments.
struct TaskHead {
  std::uint64_t call;
  std::uint64_t key;  ///< of the random numbers
  std::uint64_t rows;
  Beside beside;  ///< begins with the task's progress
};

/// What a result's frame begins with. For each row a byte follows, 1 where the function returned, then the
/// tree where it is not in the slab: for each row the result, or a packed error.
struct ResultHead {
  std::uint64_t call;
  std::int64_t nanoseconds;  ///< that the call took
  Beside beside;
};

/// Bytes of a task's progress, which memory of its rows follows.
inline constexpr std::uint64_t kProgressBytes = 64;

/// How many rows of a task have been begun, in its slab.
inline std::atomic_ref<std::uint64_t> progress_of(char* slab) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(slab));
}

/// Memory of `lane` for what `encoder` has beside its tree, after `lead` bytes, and for a tree that is too
/// large for a ring; slab 0 if it needs none. Throws std::bad_alloc where the memory is used up.
Beside allocate_beside(WorkerEnd& lane, const Encoder& encoder, std::uint64_t lead);
/// Writes it. REQUIRES: the GIL.
void write_beside(WorkerEnd& lane, const Encoder& encoder, const Beside& beside, std::uint64_t lead);

/// A message as it arrived; holds its slab.
struct Arrived {
  std::string frame;
  std::shared_ptr<char> slab;  ///< null: none
  Beside beside;
  std::size_t head_bytes;  ///< of the frame before the tree

  /// What lies between the head of `bytes` bytes and the tree.
  std::string_view after_head(std::size_t bytes) const {
    return std::string_view(frame).substr(bytes, head_bytes - bytes);
  }
  std::string_view tree() const {
    if (beside.tree_bytes > 0) return {slab.get() + beside.tree_at, beside.tree_bytes};
    return std::string_view(frame).substr(head_bytes);
  }
};

/// `value` as the bytes that a frame holds.
template <class T>
std::string_view bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace torch_distinput
