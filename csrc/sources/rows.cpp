// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "base/counters.h"
#include "base/row_names.h"
#include "core/element_type.h"
#include "core/first_row.h"
#include "core/locate_errors.h"
#include "execution/execution_context.h"
#include "sources/rows_one_by_one.h"
#include "sources/source_node.h"
#include "sources/sources.h"

namespace torch_distinput::sources {
namespace {

constexpr const char* kRowsName = "from_rows";

using RowSourcePtr = std::shared_ptr<const RowSource>;

/// Returns the rows at `positions`. Throws c10::ValueError if `source` returns another number of rows.
std::vector<Element> read_rows(const RowSource& source, std::span<const std::int64_t> positions) {
  std::vector<Element> rows = locate_errors(
      source, [&] { return c10::str(kRowsName, "(", source.name(), "): ", rows_name(positions)); },
      [&] { return source.rows(positions); });
  TORCH_CHECK_VALUE(rows.size() == positions.size(), kRowsName, ": ", source.name(), " was asked for ",
                    positions.size(), " rows, but returned ", rows.size(), ".");
  return rows;
}

/// Random access through the user's source. All rows must have one structure and one dtype for each leaf.
class RowsPlan final : public Plan {
 public:
  RowsPlan(RowSourcePtr source, std::int64_t size, std::shared_ptr<ElementType> type)
      : source_(std::move(source)), size_(size), type_(std::move(type)) {}

  std::int64_t size() const override { return size_; }
  PlanTraits traits() const override { return {.runs_user_code = source_->runs_user_code()}; }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> rows = read_rows(*source_, positions);
    for (std::size_t i = 0; i < rows.size(); ++i) type_->check(rows[i], positions[i], kRowsName);
    return rows;
  }

 private:
  RowSourcePtr source_;
  std::int64_t size_;
  std::shared_ptr<ElementType> type_;
};

class RowsNode final : public SourceNode {
 public:
  explicit RowsNode(RowSourcePtr source) : source_(std::move(source)), size_(source_->size()) {
    TORCH_CHECK_VALUE(size_ >= 0, kRowsName, ": the size of ", source_->name(),
                      " must be at least 0, but is ", size_, ".");
  }

  std::string_view name() const override { return kRowsName; }
  std::string describe() const override {
    return c10::str(kRowsName, "(", source_->name(), ", size=", size_, ")");
  }
  SpecPtr spec() const override {
    return probe_.get([this]() -> SpecPtr {
      const auto first = first_row({}, [this](const Options& with) {
        const auto execution =
            std::make_shared<ExecutionContext>(ExecutionContext{with, {}, {}, std::make_shared<Counters>()});
        return rows_one_by_one(all_rows(), IterContext{execution}, kRowsName)->next();
      });
      return first ? std::make_shared<const ElementSpec>(probed_spec(*first)) : nullptr;
    });
  }
  std::int64_t cardinality() const override { return size_; }
  Traits traits() const override { return {.rows = {.fallible = true}}; }
  std::vector<const UserCode*> user_code() const override { return {source_.get()}; }

  PlanPtr plan(const IterContext& context) const override {
    return context.execution->options.skip ? nullptr : all_rows();
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return rows_one_by_one(all_rows(), context, kRowsName);
  }

 private:
  PlanPtr all_rows() const { return std::make_shared<RowsPlan>(source_, size_, type_); }

  RowSourcePtr source_;
  std::int64_t size_;
  std::shared_ptr<ElementType> type_ = std::make_shared<ElementType>();
  SpecProbe probe_;
};

}  // namespace

NodePtr rows(std::shared_ptr<const RowSource> source) {
  TORCH_CHECK_VALUE(source != nullptr, kRowsName, ": `source` must not be null.");
  return std::make_shared<RowsNode>(std::move(source));
}

}  // namespace torch_distinput::sources
