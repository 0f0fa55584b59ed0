// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/identity.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include "core/state_reader.h"
#include "runtime/permutation.h"

namespace torch_distinput {
namespace {

/// The rows of the batches that `node` yields, also after ops that keep batches whole but do not tell their
/// size.
std::optional<std::int64_t> rows_a_batch(const Node& node) {
  if (const auto size = node.batch_size()) return size;
  const std::vector<NodePtr> inputs = node.inputs();
  return node.traits().rows.row_wise && inputs.size() == 1 ? rows_a_batch(*inputs.front()) : std::nullopt;
}

/// The batch size of the inputs, for an op whose positions would mean something else with another batch size.
std::string dependence_on_batches(const Node& node) {
  if (node.traits().rows.row_wise) return "";
  for (const NodePtr& input : node.inputs()) {
    if (const auto size = rows_a_batch(*input)) return " of batches of " + std::to_string(*size);
  }
  return "";
}

/// Each saved position holds its pipeline's identity, and the types of rows with many leaves are long. Long
/// text is shortened to its beginning and a hash of the whole.
std::string shortened(std::string text) {
  constexpr std::size_t kLongest = 120;
  constexpr std::size_t kHashDigits = 16;
  if (text.size() <= kLongest) return text;
  const std::string hash = c10::sha1(text).str().substr(0, kHashDigits);
  return text.substr(0, kLongest - kHashDigits) + "...#" + hash;
}

/// `branch` is the prefix of the lines: which input of which op they belong to, such as `zip[0]: `.
void append(const Node& node, const std::string& branch, State::List& ops) {
  const std::vector<NodePtr> inputs = node.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string below =
        inputs.size() == 1 ? branch : branch + std::string(node.name()) + "[" + std::to_string(i) + "]: ";
    append(*inputs[i], below, ops);
  }
  const std::string identity = node.identity();
  if (!identity.empty()) ops.emplace_back(branch + shortened(identity) + dependence_on_batches(node));
}

std::string op_text(const State::List& ops, std::size_t index) {
  return index < ops.size() ? "`" + ops[index].as_string() + "`" : "nothing";
}

}  // namespace

State pipeline_identity(const NodePtr& node) {
  State::List ops;
  append(*node, "", ops);
  return State(std::move(ops));
}

void check_identity(const State& saved, const State& current) {
  const auto is_text = [](const State& op) { return std::holds_alternative<std::string>(op.value()); };
  const auto* ops = std::get_if<State::List>(&saved.value());
  TORCH_CHECK_VALUE(ops != nullptr && std::all_of(ops->begin(), ops->end(), is_text),
                    "state: the saved `pipeline` must be a list of strings, but is ", brief(saved), ".");
  const State::List& before = *ops;
  const State::List& now = current.as_list();
  std::string differences;
  for (std::size_t i = 0; i < std::max(before.size(), now.size()); ++i) {
    const std::string was = op_text(before, i);
    const std::string is = op_text(now, i);
    if (was == is) continue;
    differences += c10::str("; its op ", i, " was ", was, ", but here it is ", is);
    if (before.size() != now.size()) break;  // all that follow are shifted
  }
  TORCH_CHECK_VALUE(differences.empty(), "state: saved from another pipeline", differences, ".");
}

State position_header(const PositionKind& kind, const NodePtr& node) {
  return State()
      .set("version", kind.version)
      .set("kind", kind.name)
      .set("permutation", kPermutationVersion)
      .set("pipeline", pipeline_identity(node));
}

void check_header(const State& state, const PositionKind& kind, const NodePtr& node,
                  std::string_view reader) {
  TORCH_CHECK_VALUE(state.has("kind") && state.has("version"), reader,
                    ": this is not a saved position: ", brief(state), ".");
  const StateReader saved(state, reader);
  TORCH_CHECK_VALUE(saved.at("kind") == State(kind.name), reader, ": expected a state of ", kind.name,
                    ", but it is one of ", brief(saved.at("kind")), ".");
  const std::int64_t version = saved.integer("version");
  TORCH_CHECK_VALUE(version >= 1 && version <= kind.version, reader, ": version ", version,
                    " cannot be read; this library reads versions 1 to ", kind.version, ".");
  const std::int64_t permutation = saved.integer("permutation");
  TORCH_CHECK_VALUE(permutation == kPermutationVersion, reader, ": saved with version ", permutation,
                    " of the shuffle order, but this library has version ", kPermutationVersion, ".");
  check_identity(saved.at("pipeline"), pipeline_identity(node));
}

}  // namespace torch_distinput
