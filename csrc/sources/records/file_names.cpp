// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/file_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

#include "base/counters.h"
#include "execution/any_op.h"
#include "execution/execution_context.h"
#include "io/crc32c.h"
#include "io/utf8.h"
#include "runtime/arena.h"
#include "runtime/buffer_pool.h"
#include "sources/records/byte_elements.h"
#include "sources/records/url_names.h"
#include "sources/source_node.h"
#include "sources/sources.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

class FileNamesPlan final : public Plan {
 public:
  FileNamesPlan(std::shared_ptr<const std::vector<std::string>> names, bool is_text)
      : names_(std::move(names)), is_text_(is_text) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(names_->size()); }
  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> elements;
    elements.reserve(positions.size());
    for (const std::int64_t position : positions) {
      elements.push_back(string_element(names_->at(static_cast<std::size_t>(position)), is_text_));
    }
    return elements;
  }

 private:
  std::shared_ptr<const std::vector<std::string>> names_;
  bool is_text_;
};

class FileNamesNode final : public SourceNode {
 public:
  explicit FileNamesNode(std::vector<std::string> names)
      : names_(std::make_shared<const std::vector<std::string>>(std::move(names))),
        is_text_(std::all_of(names_->begin(), names_->end(),
                             [](const std::string& name) { return utf8_prefix(name) == name.size(); })) {}

  std::string_view name() const override { return "files"; }
  std::string describe() const override {
    if (names_->empty()) return "files()";
    const std::string first = escape_non_utf8(shown_name(names_->front()));
    if (names_->size() == 1) return "files(" + first + ")";
    return c10::str("files(", names_->size(), " from ", first, " to ",
                    escape_non_utf8(shown_name(names_->back())), ")");
  }
  /// The names without their folders and queries: the files may have moved when a position is restored.
  std::string identity() const override {
    std::uint32_t crc = 0;
    for (const std::string& name : *names_) {
      const std::string shown = shown_name(name);
      crc = crc32c(shown.substr(shown.find_last_of('/') + 1) + "/", crc);
    }
    return c10::str("files(", names_->size(), ", ", crc, ")");
  }
  SpecPtr spec() const override {
    const auto encoding = is_text_ ? std::optional<std::string>("utf-8") : std::nullopt;
    return std::make_shared<const ElementSpec>(
        ElementSpec{Structure::leaf(), {StringSpec{Dims{}, encoding}}});
  }
  std::int64_t cardinality() const override { return static_cast<std::int64_t>(names_->size()); }
  Traits traits() const override { return {.sharding = {.file_names = true}}; }
  PlanPtr plan(const IterContext&) const override {
    return std::make_shared<FileNamesPlan>(names_, is_text_);
  }
  IteratorPtr iterate(const IterContext& context) const override { return iterate_plan(plan(context)); }

 private:
  std::shared_ptr<const std::vector<std::string>> names_;
  /// False if one name is not UTF-8; then all are bytes, because elements have one type.
  bool is_text_;
};

}  // namespace

std::string file_name_of(const Element& element, const std::string& op) {
  const Bytes* name = element.leaves().size() == 1 ? std::get_if<Bytes>(&element.leaves().front()) : nullptr;
  TORCH_CHECK_TYPE(name != nullptr && name->shape.empty(), op,
                   ": `files` must yield names of files, but an element is ", to_string(spec_of(element)),
                   ".");
  return std::string((*name)[0]);
}

void check_file_names(const Node& names, const std::string& op) {
  const SpecPtr spec = names.spec();
  if (spec == nullptr) return;
  const bool strings = spec->leaves.size() == 1 && std::holds_alternative<StringSpec>(spec->leaves[0]) &&
                       dim0(spec->leaves[0]) == std::nullopt;
  TORCH_CHECK_TYPE(strings, op, ": `files` must yield names of files, but yields ", to_string(*spec), ".");
}

IterContext context_to_ask(const Node& names) {
  auto execution = std::make_shared<ExecutionContext>(
      ExecutionContext{names.options(), serial_executor(), host_pool(), std::make_shared<Counters>()});
  execution->options.skip.reset();
  return IterContext{.execution = std::move(execution)};
}

std::optional<std::vector<std::string>> list_names(const Node& names, const IterContext& context,
                                                   const std::string& op) {
  const std::int64_t count = names.cardinality();
  if (count < 0) return std::nullopt;
  std::vector<std::string> result;
  if (const PlanPtr plan = context.stream_only ? nullptr : names.plan(context)) {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(plan->size()));
    std::iota(positions.begin(), positions.end(), 0);
    for (const Element& name : plan->fetch(positions)) result.push_back(file_name_of(name, op));
    return result;
  }
  const IteratorPtr iterator = names.iterate(context);
  while (const std::optional<Element> name = iterator->next()) result.push_back(file_name_of(*name, op));
  return result;
}

bool same_files_each_epoch(const Node& names) {
  const std::vector<NodePtr> inputs = names.inputs();
  // An op with as many elements as its input yields all of them, in some order.
  if (inputs.size() == 1 && inputs.front()->cardinality() == names.cardinality()) {
    return same_files_each_epoch(*inputs.front());
  }
  return !any_op(names, [](const Node& op) { return op.traits().order.random; });
}

namespace sources {

NodePtr file_names(std::vector<std::string> names) {
  for (const std::string& name : names) {
    if (name.empty()) throw InvalidArgumentError("files: a name of a file must not be empty.");
    if (name.find('\0') != std::string::npos) {
      throw InvalidArgumentError("files: a name of a file must not hold a NUL byte, but one is '" +
                                 std::string(name.c_str()) + "\\0...'.");
    }
  }
  return std::make_shared<FileNamesNode>(std::move(names));
}

}  // namespace sources
}  // namespace torch_distinput
