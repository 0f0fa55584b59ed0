// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <torch/serialize/archive.h>

#include "torch_distinput/state.h"

namespace torch_distinput {
namespace {

constexpr const char* kArchiveKey = "state";

}  // namespace

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive, const State& state) {
  archive.write(kArchiveKey, c10::IValue(state.str()));
  return archive;
}

torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive, State& state) {
  c10::IValue text;
  TORCH_CHECK_VALUE(archive.try_read(kArchiveKey, text) && text.isString(),
                    "State: the archive must have a text under the key '", kArchiveKey, "', but has none.");
  state = State::parse(text.toStringRef());
  return archive;
}

}  // namespace torch_distinput
