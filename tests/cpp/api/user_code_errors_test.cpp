// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "torch_distinput/error.h"
#include "torch_distinput/files.h"

namespace torch_distinput {
namespace {

using op_testing::collect;

/// The message of the UserCodeError that reading `dataset` throws, once the std::runtime_error in it is seen.
std::string failure(const Dataset& dataset, bool stream_only = false) {
  try {
    collect(dataset, {.epoch = 0, .stream_only = stream_only});
  } catch (const UserCodeError& error) {
    EXPECT_THROW(std::rethrow_if_nested(error), std::runtime_error);
    return error.what_without_backtrace();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

Element fail_at_5(Element element) {
  if (element.tensor().item<std::int64_t>() == 5) throw std::runtime_error("no good");
  return element;
}

struct FailingRows : RowSource {
  std::int64_t size() const override { return 9; }
  std::vector<Element> rows(std::span<const std::int64_t>) const override {
    throw std::runtime_error("disk gone");
  }
  std::string name() const override { return "disk"; }
};

TEST(UserCodeErrors, NameOpAndRowAndHoldTheOriginal) {
  const Dataset rows = Dataset::range(9);
  EXPECT_EQ(failure(rows.map(fail_at_5)), "map(function): element 5: no good");
  EXPECT_EQ(failure(rows.map(fail_at_5).batch(8)), "map(function): element 5: no good");
  EXPECT_EQ(failure(rows.map(fail_at_5), /*stream_only=*/true), "map(function): element 5: no good");
  EXPECT_EQ(failure(rows.map(fail_at_5, {.num_parallel_calls = 2})), "map(function): element 5: no good");
  EXPECT_EQ(failure(rows.filter([](const Element& e) { return fail_at_5(e).rows() == 7; })),
            "filter(function): element 5: no good");
  EXPECT_EQ(failure(rows.flat_map([](const Element& e) { return Dataset::from_tensors(fail_at_5(e)); })),
            "flat_map(function): element 5: no good");
  EXPECT_EQ(failure(rows.bucket_by_length([](const Element& e) { return fail_at_5(e).bytes(); },
                                          {.bucket_boundaries = {3}, .bucket_batch_sizes = {2, 2}})),
            "bucket_by_length(function): element 5: no good");
}

TEST(UserCodeErrors, SourcesNameTheirRows) {
  const Dataset rows = Dataset::from_rows(std::make_shared<FailingRows>());
  EXPECT_EQ(failure(rows, /*stream_only=*/true), "from_rows(disk): row 0: disk gone");
  EXPECT_EQ(failure(rows.batch(4).with_options({.prefetch = 0})),
            "from_rows(disk): one of the 4 rows 0 to 3: disk gone");
  const Dataset generated = Dataset::from_generator(
      [] {
        return [left = 2]() mutable -> std::optional<Element> {
          if (left-- == 0) throw std::runtime_error("cut off");
          return Element(at::zeros({}));
        };
      },
      {Structure::leaf(), {TensorSpec{Dims{}}}});
  EXPECT_EQ(failure(generated), "from_generator(generator): element 2: cut off");
}

TEST(UserCodeErrors, AnErrorOfTorchKeepsItsType) {
  const Dataset dataset = Dataset::range(9).map([](Element element) {
    TORCH_CHECK_INDEX(element.tensor().item<std::int64_t>() != 5, "five");
    return element;
  });
  EXPECT_EQ(message_of<c10::IndexError>([&] { collect(dataset); }), "five (map(function): element 5)");
}

template <class Build>
std::string refusal(const Build& build) {
  return message_of<c10::ValueError>([&] { static_cast<void>(build()); });
}

TEST(UserCodeErrors, EmptyFunctionsAndNullsAreRefusedWhenThePipelineIsBuilt) {
  const Dataset rows = Dataset::range(3);
  using Map = std::function<Element(Element)>;
  using Make = std::function<Dataset(Element)>;
  EXPECT_EQ(refusal([] { return Dataset(NodePtr()); }), "Dataset: `node` must not be null.");
  EXPECT_EQ(refusal([&] { return rows.map(Map()); }), "map: `function` must not be empty.");
  EXPECT_EQ(refusal([&] { return rows.filter(std::function<bool(const Element&)>()); }),
            "filter: `predicate` must not be empty.");
  EXPECT_EQ(refusal([&] { return rows.flat_map(Make()); }), "flat_map: `function` must not be empty.");
  EXPECT_EQ(refusal([&] { return rows.interleave(Make()); }), "interleave: `function` must not be empty.");
  EXPECT_EQ(refusal([&] { return rows.apply({}); }), "apply: `function` must not be empty.");
  EXPECT_EQ(refusal([&] { return Dataset::from_generator({}, {Structure::leaf(), {TensorSpec{}}}); }),
            "from_generator: `open` must not be empty.");
  EXPECT_EQ(refusal([&] { return Dataset::zip(nullptr, {rows}); }), "zip: `structure` must not be null.");
  EXPECT_EQ(refusal([&] { return rows.map(FunctionPtr()); }), "map: `function` must not be null.");
  EXPECT_EQ(refusal([] { return Dataset::from_rows(nullptr); }), "from_rows: `source` must not be null.");
  EXPECT_EQ(refusal([] { return Dataset::from_generator(std::shared_ptr<GeneratorSource>(), {}); }),
            "from_generator: `source` must not be null.");
  EXPECT_EQ(refusal([] { return make_function({}); }), "make_function: `function` must not be empty.");
}

TEST(UserCodeErrors, UndefinedTensorsAreNamed) {
  const Element undefined = Element::dict({{"x", at::zeros({2})}, {"y", at::Tensor()}});
  EXPECT_EQ(refusal([&] { return Dataset::from_tensors(undefined); }),
            "from_tensors: leaf ['y'] is an undefined tensor.");
  EXPECT_EQ(refusal([&] { return Dataset::from_tensor_slices(undefined); }),
            "from_tensor_slices: leaf ['y'] is an undefined tensor.");
  const Dataset mapped = Dataset::range(3).map([](const Element&) { return Element(at::Tensor()); });
  EXPECT_EQ(refusal([&] { return collect(mapped); }),
            "map(function): element 0: the element is an undefined tensor.");
  const Dataset later = Dataset::range(3).map([](Element element) {
    return element.tensor().item<std::int64_t>() == 2 ? Element(at::Tensor()) : element;
  });
  EXPECT_EQ(refusal([&] { return collect(later); }).find("map(function): element 2: "), 0U);
  EXPECT_EQ(refusal([] { return Dataset::range(3).select(at::Tensor()); }),
            "select: `indices` is an undefined tensor.");
}

TEST(FileDatasets, TakeNamesInBraces) {
  static_assert(std::is_constructible_v<TFRecordDataset, std::initializer_list<const char*>>);
  const std::string name = "two";
  EXPECT_EQ(TFRecordDataset({"one"}).node()->inputs().front()->cardinality(), 1);
  EXPECT_EQ(TextLineDataset({"one", "two"}).node()->inputs().front()->cardinality(), 2);
  EXPECT_EQ(TextLineDataset({name, name}).node()->inputs().front()->cardinality(), 2);
  EXPECT_EQ(FixedLengthRecordDataset({"one"}, 4).node()->inputs().front()->cardinality(), 1);
  EXPECT_EQ(TFRecordDataset({name}, {.compression_type = "GZIP"}).node()->inputs().front()->cardinality(), 1);
}

}  // namespace
}  // namespace torch_distinput
