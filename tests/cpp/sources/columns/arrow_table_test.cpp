// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "torch_distinput/columns.h"
#include "torch_distinput/error.h"
#include "torch_distinput/testing.h"

namespace torch_distinput {
namespace {

/// A producer of the C interface, written for these tests: a stream of batches of two columns, `x` (int32)
/// and `s` (utf8), each `rows` long. Counts what is still to be released.
class Producer {
 public:
  Producer(int batches, int rows, std::string x_format = "i")
      : batches_(batches), format_(std::move(x_format)) {
    offsets_.push_back(0);
    for (int row = 0; row < rows; ++row) {
      numbers_.push_back(row);
      text_ += std::string(static_cast<std::size_t>(row % 3), static_cast<char>('a' + row));
      offsets_.push_back(static_cast<std::int32_t>(text_.size()));
    }
  }

  int open() const { return open_; }
  std::vector<std::int32_t>& offsets() { return offsets_; }
  void fail() { failing_ = true; }

  ArrowArrayStream stream() {
    ++open_;
    ArrowArrayStream stream{};
    stream.get_schema = [](ArrowArrayStream* self, ArrowSchema* out) { return of(self).schema(out); };
    stream.get_next = [](ArrowArrayStream* self, ArrowArray* out) { return of(self).next(out); };
    stream.get_last_error = [](ArrowArrayStream*) { return "out of paper"; };
    stream.release = release<ArrowArrayStream>;
    stream.private_data = this;
    return stream;
  }

 private:
  template <class Struct>
  static Producer& of(Struct* handed_out) {
    return *static_cast<Producer*>(handed_out->private_data);
  }
  template <class Struct>
  static void release(Struct* handed_out) {
    --of(handed_out).open_;
    handed_out->release = nullptr;
  }

  int schema(ArrowSchema* out) {
    ++open_;
    fields_[0].format = format_.c_str();
    fields_[0].name = "x";
    fields_[1].format = "u";
    fields_[1].name = "s";
    field_places_ = {&fields_[0], &fields_[1]};
    *out = {};
    out->format = "+s";
    out->n_children = 2;
    out->children = field_places_.data();
    out->release = release<ArrowSchema>;
    out->private_data = this;
    return 0;
  }

  int next(ArrowArray* out) {
    *out = {};
    if (failing_) return 5;
    if (batches_ == 0) return 0;
    --batches_;
    ++open_;
    number_buffers_ = {nullptr, numbers_.data()};
    text_buffers_ = {nullptr, offsets_.data(), text_.data()};
    columns_[0].n_buffers = 2;
    columns_[0].buffers = number_buffers_.data();
    columns_[1].n_buffers = 3;
    columns_[1].buffers = text_buffers_.data();
    column_places_ = {&columns_[0], &columns_[1]};
    out->n_buffers = 1;
    out->buffers = no_buffers_.data();
    out->n_children = 2;
    out->children = column_places_.data();
    for (ArrowArray* const array : {out, &columns_[0], &columns_[1]})
      array->length = static_cast<std::int64_t>(numbers_.size());
    out->release = release<ArrowArray>;
    out->private_data = this;
    return 0;
  }

  int batches_;
  std::string format_;
  int open_ = 0;
  bool failing_ = false;
  std::vector<std::int32_t> numbers_;
  std::vector<std::int32_t> offsets_;
  std::string text_;
  std::array<ArrowSchema, 2> fields_{};
  std::array<ArrowSchema*, 2> field_places_{};
  std::array<ArrowArray, 2> columns_{};
  std::array<ArrowArray*, 2> column_places_{};
  std::array<const void*, 1> no_buffers_{};
  std::array<const void*, 2> number_buffers_{};
  std::array<const void*, 3> text_buffers_{};
};

TEST(ArrowTable, HoldsTheArraysAndReleasesThemWithTheLastDataset) {
  Producer producer(3, 7);
  {
    ArrowArrayStream stream = producer.stream();
    const Dataset dataset = from_arrow(&stream);
    EXPECT_EQ(stream.release, nullptr);
    EXPECT_EQ(producer.open(), 3);
    EXPECT_EQ(dataset.cardinality(), 21);
    EXPECT_EQ(to_string(dataset.element_spec()),
              "{'x': TensorSpec(shape=(), dtype=torch.int32), 's': StringSpec(shape=(), encoding='utf-8')}");
    std::int64_t row = 0;
    for (const Element& element : dataset) {
      EXPECT_EQ(element["x"].tensor().item<std::int32_t>(), row % 7);
      EXPECT_EQ(std::get<Bytes>(element["s"].leaves()[0])[0],
                std::string(static_cast<std::size_t>(row % 7 % 3), static_cast<char>('a' + row % 7)));
      ++row;
    }
    EXPECT_EQ(row, 21);
    testing::assert_resumable(dataset.shuffle({.seed = 3}).batch(4));
  }
  EXPECT_EQ(producer.open(), 0);
}

TEST(ArrowTable, ReleasesAllWhereItRefuses) {
  Producer producer(1, 2, "d:5,2");
  ArrowArrayStream stream = producer.stream();
  EXPECT_EQ(message_of<c10::TypeError>([&] { from_arrow(&stream); }),
            "from_arrow: column 'x' is a decimal, which no leaf can hold; cast it, or leave it out.");
  EXPECT_EQ(producer.open(), 0);
}

TEST(ArrowTable, NamesTheRowWhoseOffsetsAreOutOfOrder) {
  Producer producer(2, 5);
  producer.offsets()[3] = 0;
  ArrowArrayStream stream = producer.stream();
  EXPECT_EQ(message_of<InvalidArgumentError>([&] { from_arrow(&stream); }),
            "from_arrow: column 's' has offsets out of order in row 2.");
  EXPECT_EQ(producer.open(), 0);
}

TEST(ArrowTable, PassesOnTheErrorOfTheStream) {
  Producer producer(1, 1);
  producer.fail();
  ArrowArrayStream stream = producer.stream();
  EXPECT_EQ(message_of<InvalidArgumentError>([&] { from_arrow(&stream); }),
            "from_arrow: the stream failed: out of paper.");
  EXPECT_EQ(producer.open(), 0);
}

}  // namespace
}  // namespace torch_distinput
