// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "torch_distinput/arrow_abi.h"

namespace torch_distinput {

/// Owns a structure of the Arrow C interface and releases it.
template <class Struct>
class ArrowOwned {
 public:
  ArrowOwned() = default;
  ~ArrowOwned() {
    if (value_.release != nullptr) value_.release(&value_);
  }
  ArrowOwned(const ArrowOwned&) = delete;
  ArrowOwned& operator=(const ArrowOwned&) = delete;

  Struct* get() noexcept { return &value_; }
  const Struct& operator*() const noexcept { return value_; }
  const Struct* operator->() const noexcept { return &value_; }
  /// Whether there is something to release.
  bool filled() const noexcept { return value_.release != nullptr; }

 private:
  Struct value_{};
};

/// An array that leaves of several tensors share.
using ArrowBatch = std::shared_ptr<ArrowOwned<ArrowArray>>;

/// Takes what `stream` holds; the original is left released, as the specification says of a move.
inline void take_stream(ArrowArrayStream* stream, ArrowOwned<ArrowArrayStream>& owner) {
  *owner.get() = *stream;
  stream->release = nullptr;
}

/// Reads the schema of `stream`. Throws InvalidArgumentError naming `op`, with the stream's own message.
void read_schema(ArrowArrayStream* stream, ArrowOwned<ArrowSchema>& schema, const std::string& op);
/// Reads the next array; null at the end. Throws as above.
ArrowBatch read_batch(ArrowArrayStream* stream, const std::string& op);

}  // namespace torch_distinput
