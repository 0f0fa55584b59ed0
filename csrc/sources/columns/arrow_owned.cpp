// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/arrow_owned.h"

#include <cstring>

#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

void check_code(int code, ArrowArrayStream* stream, const std::string& op) {
  if (code == 0) return;
  const char* const text = stream->get_last_error(stream);
  throw InvalidArgumentError(op + ": the stream failed: " + (text == nullptr ? std::strerror(code) : text) +
                             ".");
}

void check_open(const ArrowArrayStream* stream, const std::string& op) {
  if (stream->release == nullptr) {
    throw FailedPreconditionError(op +
                                  ": the stream was read already; give an object that can be read again.");
  }
}

}  // namespace

void read_schema(ArrowArrayStream* stream, ArrowOwned<ArrowSchema>& schema, const std::string& op) {
  check_open(stream, op);
  check_code(stream->get_schema(stream, schema.get()), stream, op);
}

ArrowBatch read_batch(ArrowArrayStream* stream, const std::string& op) {
  check_open(stream, op);
  auto batch = std::make_shared<ArrowOwned<ArrowArray>>();
  check_code(stream->get_next(stream, batch->get()), stream, op);
  return batch->filled() ? batch : nullptr;
}

}  // namespace torch_distinput
