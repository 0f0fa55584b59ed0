// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include <memory>
#include <string>
#include <utility>

#include "core/element_type.h"
#include "core/engine.h"
#include "core/first_row.h"
#include "core/skip_budget.h"
#include "core/state_reader.h"
#include "runtime/counters.h"
#include "sources/source_node.h"
#include "sources/sources.h"

namespace torch_distinput::sources {
namespace {

constexpr const char* kName = "from_rows";

using SourcePtr = std::shared_ptr<const RowSource>;

/// The rows at `positions`, as many as asked for.
std::vector<Element> read_rows(const RowSource& source, std::span<const std::int64_t> positions) {
  std::vector<Element> rows = source.rows(positions);
  TORCH_CHECK_VALUE(rows.size() == positions.size(), kName, ": ", source.name(), " was asked for ",
                    positions.size(), " rows, but gave ", rows.size(), ".");
  return rows;
}

class RowsPlan final : public Plan {
 public:
  RowsPlan(SourcePtr source, std::int64_t size, std::shared_ptr<ElementType> type)
      : source_(std::move(source)), size_(size), type_(std::move(type)) {}

  std::int64_t size() const override { return size_; }
  PlanTraits traits() const override { return {.foreign = source_->foreign()}; }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> rows = read_rows(*source_, positions);
    for (std::size_t i = 0; i < rows.size(); ++i) type_->check(rows[i], positions[i], kName);
    return rows;
  }

 private:
  SourcePtr source_;
  std::int64_t size_;
  std::shared_ptr<ElementType> type_;
};

/// Reads row by row, so that a bad one can be left out.
class RowsCursor final : public Iterator {
 public:
  RowsCursor(PlanPtr plan, const IterContext& context) : plan_(std::move(plan)), budget_(context, kName) {}

  std::optional<Element> next() override {
    while (next_ < plan_->size()) {
      std::int64_t position = next_++;
      try {
        std::vector<Element> row = plan_->fetch({&position, 1});
        budget_.pass();
        return std::move(row.front());
      } catch (...) {
        budget_.fail();
      }
    }
    budget_.end();
    return std::nullopt;
  }

  State save() const override { return State().set("next", next_).set("skip", budget_.save()); }
  void load(const State& state) override {
    const StateReader saved(state, kName);
    next_ = saved.count("next", plan_->size());
    budget_.load(saved.at("skip"));
  }

 private:
  PlanPtr plan_;
  SkipBudget budget_;
  std::int64_t next_ = 0;
};

class RowsNode final : public SourceNode {
 public:
  explicit RowsNode(SourcePtr source) : source_(std::move(source)), size_(source_->size()) {
    TORCH_CHECK_VALUE(size_ >= 0, kName, ": the size of ", source_->name(), " must be at least 0, but is ",
                      size_, ".");
  }

  std::string_view name() const override { return kName; }
  std::string describe() const override {
    return c10::str(kName, "(", source_->name(), ", size=", size_, ")");
  }
  SpecPtr spec() const override {
    return probe_.get([this]() -> SpecPtr {
      const auto first = first_row({}, [this](const Options& with) {
        const auto engine = std::make_shared<Engine>(Engine{with, {}, {}, std::make_shared<Counters>()});
        return RowsCursor(std::make_shared<RowsPlan>(source_, size_, type_), IterContext{engine}).next();
      });
      return first ? std::make_shared<const ElementSpec>(probed_spec(*first)) : nullptr;
    });
  }
  std::int64_t cardinality() const override { return size_; }
  Traits traits() const override {
    return {.unshardable = true, .fallible = true, .foreign = source_->foreign()};
  }
  std::vector<const UserCode*> user_code() const override { return {source_.get()}; }

  PlanPtr plan(const IterContext& context) const override {
    return context.engine->options.skip ? nullptr : std::make_shared<RowsPlan>(source_, size_, type_);
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<RowsCursor>(std::make_shared<RowsPlan>(source_, size_, type_), context);
  }

 private:
  SourcePtr source_;
  std::int64_t size_;
  std::shared_ptr<ElementType> type_ = std::make_shared<ElementType>();
  SpecProbe probe_;
};

}  // namespace

NodePtr rows(std::shared_ptr<const RowSource> source) {
  TORCH_CHECK_VALUE(source != nullptr, kName, ": `source` must not be null.");
  return std::make_shared<RowsNode>(std::move(source));
}

}  // namespace torch_distinput::sources
