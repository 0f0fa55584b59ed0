// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <torch/serialize/archive.h>

#include "torch_distinput/state.h"

namespace torch_distinput {
namespace {

constexpr std::string_view kArchiveKey = "tdi_state";
/// Of a text that is a position without a name, in archives of earlier versions. Optimizers of torch have a
/// nested archive under it.
constexpr const char* kEarlierKey = "state";
/// Of the text in the nested archive of a position.
constexpr const char* kTextKey = "json";

std::string key_of(const std::string& name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  TORCH_CHECK_VALUE(std::all_of(name.begin(), name.end(), is_allowed),
                    "State: `name` must have letters, digits and `_` only, but is '", name, "'.");
  return std::string(kArchiveKey) + (name.empty() ? "" : "_") + name;
}

/// The positions of an archive as a text: `'', 'train'`.
std::string names_in(torch::serialize::InputArchive& archive) {
  std::string names;
  for (const std::string& key : archive.keys()) {
    if (!key.starts_with(kArchiveKey)) continue;
    const std::string_view name = std::string_view(key).substr(kArchiveKey.size());
    if (!name.empty() && name.front() != '_') continue;
    names.append(names.empty() ? "'" : ", '").append(name.empty() ? name : name.substr(1)).append("'");
  }
  return names.empty() ? "none" : names;
}

}  // namespace

void State::save(torch::serialize::OutputArchive& archive, const std::string& name) const {
  const std::string key = key_of(name);
  torch::serialize::OutputArchive nested(archive.compilation_unit());
  nested.write(kTextKey, c10::IValue(str()));
  try {
    // Each nested archive has a type of its own, so that torch refuses a second one under a key. It would
    // replace a text, and does not tell which keys there are.
    archive.write(key, nested);
  } catch (const c10::Error&) {
    TORCH_CHECK_VALUE(false, "State: the archive must not have the key `", key,
                      "` yet, but has it already. Save each position under a name of its own, as in "
                      "`state.save(archive, \"train\")`.");
  }
}

State State::load(torch::serialize::InputArchive& archive, const std::string& name) {
  const std::string key = key_of(name);
  torch::serialize::InputArchive nested;
  c10::IValue text;
  const bool found = archive.try_read(key, nested) ? nested.try_read(kTextKey, text)
                                                   : name.empty() && archive.try_read(kEarlierKey, text);
  TORCH_CHECK_VALUE(found && text.isString(), "State: the archive must have a position under the key `", key,
                    "`, but has none there. Names of the positions that it has: ", names_in(archive), ".");
  return parse(text.toStringRef());
}

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive, const State& state) {
  state.save(archive, "");
  return archive;
}

torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive, State& state) {
  state = State::load(archive, "");
  return archive;
}

}  // namespace torch_distinput
