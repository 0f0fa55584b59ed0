// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <unordered_set>
#include <vector>

#include "api/network_forecast.h"
#include "execution/any_op.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/own_threads.h"
#include "execution/read_ahead.h"
#include "execution/reads_files.h"
#include "execution/tells_facts.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

std::string why_it_streams(const Node& node, const IterContext& context) {
  const std::vector<NodePtr> inputs = node.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->plan(context.input(i)) == nullptr) return "its input streams";
  }
  const bool skips = context.execution->options.skip.has_value() && node.traits().rows.fallible;
  return skips ? "skips rows that fail" : "has no random access";
}

/// Who reads from an op: the threads it runs on, and whether it runs a plan, of which its inputs are parts
/// then.
struct Consumer {
  ThreadUse threads = {};
  bool runs_plan = false;
};

/// The path of an op and the threads that do its work.
struct Path {
  std::string text;
  ThreadUse work;
  Consumer of_inputs;  ///< what its inputs see
};

Path path_of(const Node& node, const IterContext& context, const Consumer& consumer) {
  try {
    if (const PlanPtr plan = node.plan(context)) {
      const ThreadUse threads =
          consumer.runs_plan ? consumer.threads : plan_threads(plan->traits(), *context.execution);
      return {"plan", threads, {threads, true}};
    }
  } catch (const FailedPreconditionError& error) {
    return {std::string("fails: ") + error.what_without_backtrace(), consumer.threads, consumer};
  }
  Path path{"stream: " + why_it_streams(node, context), consumer.threads, {consumer.threads, false}};
  if (const auto* const own = dynamic_cast<const OwnThreads*>(&node)) {
    if (const ThreadUse threads = own->work_threads(context); threads.count > 0) path.work = threads;
    if (const ThreadUse threads = own->input_threads(); threads.count > 0) path.of_inputs.threads = threads;
  }
  return path;
}

/// As `Dataset::cardinality`, without reading what cannot tell it.
std::int64_t cardinality_of(const Node& node, const IterContext& context) {
  if (context.execution->options.skip && may_fail(node)) return kUnknownCardinality;
  return node.cardinality();
}

std::string facts_of(const Node& node, const IterContext& context) {
  const auto* const op = dynamic_cast<const TellsFacts*>(&node);
  try {
    return op == nullptr ? "" : op->facts(context);
  } catch (const FailedPreconditionError&) {
    return "";  // the path says it
  }
}

constexpr const char* kUnindexed = "not known before there is an index";

/// Lists the ops of a pipeline.
class OpList {
 public:
  std::vector<OpInfo> of(const Node& node, const IterContext& context) {
    find_unindexed(node, context);
    append(node, context, {});
    return std::move(ops_);
  }

 private:
  /// Finds the ops that cannot be asked for a plan or for their number without reading whole objects.
  bool find_unindexed(const Node& node, const IterContext& context) {
    const auto* const source = dynamic_cast<const ReadsFiles*>(&node);
    bool lacks = source != nullptr && source->lacks_index(context);
    const std::vector<NodePtr> inputs = node.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) lacks |= find_unindexed(*inputs[i], context.input(i));
    if (lacks) unindexed_.insert(&node);
    return lacks;
  }

  /// Appends the inputs of `node`, then the node itself.
  void append(const Node& node, const IterContext& context, const Consumer& consumer) {
    const bool is_known = !unindexed_.contains(&node);
    const Path path = is_known ? path_of(node, context, consumer) : Path{kUnindexed, {}, {}};
    const std::vector<NodePtr> inputs = node.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) append(*inputs[i], context.input(i), path.of_inputs);
    ops_.push_back({.call = node.describe(),
                    .num_inputs = inputs.size(),
                    .cardinality = is_known ? cardinality_of(node, context) : kUnknownCardinality,
                    .path = path.text,
                    .facts = is_known ? facts_of(node, context) : "",
                    .runs_user_code = node.runs_user_code(),
                    .threads = is_known ? to_string(path.work) : "not known",
                    .spec = node.spec()});
  }

  std::unordered_set<const Node*> unindexed_;
  std::vector<OpInfo> ops_;
};

/// What the first epoch runs in.
IterContext context_of(const Node& node) {
  return epoch_context(make_execution_context(node.options()), 0, 0, /*stream_only=*/false);
}

std::string elements_text(std::int64_t cardinality) {
  if (cardinality == kInfiniteCardinality) return "infinite";
  if (cardinality == kUnknownCardinality) return "unknown";
  return std::to_string(cardinality);
}

/// How far the line of each op is indented: the inputs of an op with several stand further right.
std::vector<std::size_t> indents_of(const std::vector<OpInfo>& ops) {
  std::vector<std::size_t> indents(ops.size());
  std::vector<std::size_t> readers{0};  // indents of the ops that are still to come, from the last one on
  for (std::size_t i = ops.size(); i-- > 0;) {
    indents[i] = readers.back();
    readers.pop_back();
    readers.insert(readers.end(), ops[i].num_inputs, indents[i] + (ops[i].num_inputs > 1 ? 2 : 0));
  }
  return indents;
}

constexpr std::size_t kColumns = 5;
using Line = std::array<std::string, kColumns>;

std::string table(const std::vector<Line>& lines) {
  std::array<std::size_t, kColumns> widths{};
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    for (std::size_t i = 0; i + 1 < kColumns; ++i) {
      text += line[i] + std::string(widths[i] - line[i].size() + 2, ' ');
    }
    text += line.back() + '\n';
  }
  return text;
}

}  // namespace

std::vector<OpInfo> Dataset::ops() const { return OpList().of(*node_, context_of(*node_)); }

std::vector<std::string> Dataset::network_facts() const {
  return facts_of(network_forecast(*node_, context_of(*node_)));
}

bool Dataset::lacks_index() const { return lacks_index_below(*node_, context_of(*node_)); }

std::string Dataset::explain() const {
  const std::vector<OpInfo> all = ops();
  const std::vector<std::size_t> indents = indents_of(all);
  std::vector<Line> lines{{"op", "elements", "path", "threads", "element_spec"}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const OpInfo& op = all[i];
    lines.push_back(
        {std::string(indents[i], ' ') + op.call, elements_text(op.cardinality),
         op.path + (op.facts.empty() ? "" : "; " + op.facts) + (op.runs_user_code ? "; runs user code" : ""),
         op.threads, op.spec == nullptr ? "unknown" : to_string(*op.spec)});
  }
  std::string text = table(lines);
  for (const std::string& fact : network_facts()) text += fact + '\n';
  return text;
}

}  // namespace torch_distinput
