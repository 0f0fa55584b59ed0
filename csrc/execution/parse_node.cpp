// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/parse_node.h"

#include <string>
#include <utility>

#include "core/state_reader.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/skip_budget.h"

namespace torch_distinput {
namespace {

std::string element_name(std::int64_t number) { return "element " + std::to_string(number); }

std::string row_name(std::int64_t row, std::int64_t number) {
  return "row " + std::to_string(row) + " of " + element_name(number);
}

/// The name of the rows of element `number`.
RecordName names_in(std::int64_t number, const Element& element) {
  if (!element.rows()) return [number](std::int64_t) { return element_name(number); };
  return [number](std::int64_t row) { return row_name(row, number); };
}

class ParsePlan final : public Plan {
 public:
  ParsePlan(PlanPtr input, ElementParserPtr parser, std::shared_ptr<BufferPool> pool)
      : input_(std::move(input)), parser_(std::move(parser)), pool_(std::move(pool)) {}

  std::int64_t size() const override { return input_->size(); }
  PlanTraits traits() const override { return input_->traits(); }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    const std::vector<std::int64_t> numbers(positions.begin(), positions.end());
    std::vector<Element> elements = input_->fetch(positions);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const RecordName name = names_in(numbers[i], elements[i]);
      elements[i] = parser_->parse(std::move(elements[i]), *pool_, name);
    }
    return elements;
  }

  bool fetches_batches() const override { return parser_->stacks() && input_->fetches_batches(); }
  Element fetch_batch(std::span<std::int64_t> positions) const override {
    const std::vector<std::int64_t> numbers(positions.begin(), positions.end());
    return parser_->parse(input_->fetch_batch(positions), *pool_, [&](std::int64_t row) {
      return element_name(numbers.at(static_cast<std::size_t>(row)));
    });
  }

  std::int64_t rows(std::int64_t position) const override {
    return parser_->row_wise() ? input_->rows(position) : kUnknownRows;
  }
  std::int64_t rows_before(std::int64_t position) const override {
    return parser_->row_wise() ? input_->rows_before(position) : kUnknownRows;
  }
  Element take_rows(std::span<const Segment> segments) const override {
    if (!parser_->row_wise()) return Plan::take_rows(segments);
    return parser_->parse(input_->take_rows(segments), *pool_, [&](std::int64_t row) {
      std::size_t part = 0;
      for (; part + 1 < segments.size() && row >= segments[part].end - segments[part].begin; ++part)
        row -= segments[part].end - segments[part].begin;
      return row_name(segments[part].begin + row, segments[part].element);
    });
  }
  std::vector<const Plan*> inputs() const override { return {input_.get()}; }
  std::int64_t num_source_rows() const override { return input_->num_source_rows(); }
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const override {
    input_->source_rows(positions, rows);
  }
  void source_rows_of(std::span<const Segment> segments, std::vector<std::int64_t>& rows) const override {
    parser_->row_wise() ? input_->source_rows_of(segments, rows) : Plan::source_rows_of(segments, rows);
  }
  std::vector<std::int64_t> block_starts() const override { return input_->block_starts(); }
  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    return input_->sampled(position);
  }
  void will_read(std::span<std::int64_t> positions) const override { input_->will_read(positions); }
  void will_take(std::span<const Segment> segments) const override {
    parser_->row_wise() ? input_->will_take(segments) : Plan::will_take(segments);
  }

 private:
  PlanPtr input_;
  ElementParserPtr parser_;
  std::shared_ptr<BufferPool> pool_;
};

class ParseIterator final : public Iterator {
 public:
  ParseIterator(IteratorPtr input, ElementParserPtr parser, const IterContext& context, std::string op)
      : input_(std::move(input)),
        parser_(std::move(parser)),
        pool_(context.execution->pool),
        budget_(context, op),
        op_(std::move(op)) {}

  std::optional<Element> next() override {
    while (std::optional<Element> element = input_->next()) {
      const std::int64_t number = number_++;
      try {
        const RecordName name = names_in(number, *element);
        Element parsed = parser_->parse(std::move(*element), *pool_, name);
        budget_.pass();
        return parsed;
      } catch (...) {
        budget_.fail();
      }
    }
    budget_.end();
    return std::nullopt;
  }

  State save() const override {
    return State().set("input", input_->save()).set("number", number_).set("skip", budget_.save());
  }
  void load(const State& state) override {
    const StateReader saved(state, op_);
    number_ = saved.count("number");
    budget_.load(saved.at("skip"));
    input_->load(saved.at("input"));
  }

 private:
  IteratorPtr input_;
  ElementParserPtr parser_;
  std::shared_ptr<BufferPool> pool_;
  SkipBudget budget_;
  std::string op_;
  std::int64_t number_ = 0;  ///< the elements read so far
};

}  // namespace

PlanPtr ParseNode::plan(const IterContext& context) const {
  if (context.execution->options.skip) return nullptr;
  PlanPtr elements = input().plan(context.input(0));
  if (elements == nullptr) return nullptr;
  return std::make_shared<ParsePlan>(std::move(elements), parser(), context.execution->pool);
}

IteratorPtr ParseNode::iterate(const IterContext& context) const {
  return std::make_unique<ParseIterator>(open_iterator(input_ptr(), context.input(0)), parser(), context,
                                         std::string(name()));
}

}  // namespace torch_distinput
