// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
//
// A source of one's own (random access to rows), an op of one's own (a node that passes every other element
// on), and elements as structs. The library's laws are checked on both.
#include <iostream>
#include <string>

#include <ATen/ops/full.h>
#include <torch_distinput/testing.h>
#include <torch_distinput/torch_distinput.h>
#include <torch_distinput/typed.h>

namespace tdi = torch_distinput;

/// Row k: {"square": k * k, "name": "row k"}.
class Squares final : public tdi::RowSource {
 public:
  explicit Squares(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::vector<tdi::Element> rows(std::span<const std::int64_t> positions) const override {
    std::vector<tdi::Element> rows;
    for (const std::int64_t k : positions) {
      const tdi::Bytes name = tdi::Bytes::single("row " + std::to_string(k), /*utf8=*/true);
      rows.push_back(tdi::Element::dict({{"square", at::full({}, k * k, at::kLong)},
                                         {"name", tdi::Element(tdi::Structure::leaf(), {name})}}));
    }
    return rows;
  }
  std::string name() const override { return "squares"; }

 private:
  std::int64_t size_;
};

/// Elements 0, 2, 4, ... of its input.
class EveryOther final : public tdi::Node {
 public:
  explicit EveryOther(tdi::NodePtr input) : input_(std::move(input)) {}
  std::string_view name() const override { return "every_other"; }
  std::string describe() const override { return "every_other()"; }
  std::vector<tdi::NodePtr> inputs() const override { return {input_}; }
  tdi::NodePtr with_inputs(std::vector<tdi::NodePtr> inputs) const override {
    return std::make_shared<EveryOther>(std::move(inputs.at(0)));
  }
  tdi::SpecPtr spec() const override { return input_->spec(); }
  std::int64_t cardinality() const override {
    const std::int64_t size = input_->cardinality();
    return size < 0 ? size : (size + 1) / 2;
  }
  tdi::IteratorPtr iterate(const tdi::IterContext& context) const override {
    return std::make_unique<Run>(input_->iterate(context.input(0)));
  }

 private:
  class Run final : public tdi::Iterator {
   public:
    explicit Run(tdi::IteratorPtr input) : input_(std::move(input)) {}
    std::optional<tdi::Element> next() override {
      std::optional<tdi::Element> element = input_->next();
      if (element) input_->next();
      return element;
    }
    tdi::State save() const override { return tdi::State().set("input", input_->save()); }
    void load(const tdi::State& state) override { input_->load(state.at("input")); }

   private:
    tdi::IteratorPtr input_;
  };

  tdi::NodePtr input_;
};

struct Row {
  std::int64_t square;
  std::string_view name;
  static auto fields() {
    return tdi::fields(tdi::field("square", &Row::square), tdi::field("name", &Row::name));
  }
};

int main() {
  const tdi::Dataset squares = tdi::Dataset::from_rows(std::make_shared<Squares>(7));
  const tdi::Dataset dataset(std::make_shared<EveryOther>(squares.node()));
  tdi::testing::assert_resumable(squares);
  tdi::testing::assert_resumable(dataset);
  for (const Row& row : tdi::as<Row>(dataset)) std::cout << row.name << ": " << row.square << '\n';
}
