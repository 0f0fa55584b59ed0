// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include "torch_distinput/dataset.h"
#include "torch_distinput/distributed_dataset.h"
#include "torch_distinput/function.h"
#include "torch_distinput/multi_worker.h"
#include "torch_distinput/process_group.h"
#include "torch_distinput/strategy.h"

/// \file
/// Datasets of `torch::data` in this library, and a loader in the place of torch's. The header includes none
/// of torch's own, so that a program includes the ones that it needs.

namespace torch::data::samplers {
class RandomSampler;
class SequentialSampler;
}  // namespace torch::data::samplers

namespace torch_distinput {

namespace torch_data {  // private to the library

template <class T>
struct Unwrapped {
  using type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using type = T;
};

template <class T>
constexpr bool kIsVector = false;
template <class T>
constexpr bool kIsVector<std::vector<T>> = true;

/// What `Source::get_batch` returns, without an optional around it.
template <class Source>
using BatchOf = typename Unwrapped<typename Source::BatchType>::type;

/// Whether a batch is asked for by indices, not by its size.
template <class Source>
constexpr bool kHasIndices =
    std::is_convertible_v<const std::vector<std::size_t>&, typename Source::BatchRequestType>;

template <class Value>
constexpr bool kIsValue = std::is_arithmetic_v<Value> || std::is_same_v<Value, at::Tensor>;

/// Whether `element_of` and `example_of` know this type.
template <class Example>
constexpr bool is_example() {
  if constexpr (requires(Example example) { example.target; })
    return kIsValue<decltype(Example::data)> && kIsValue<decltype(Example::target)>;
  else if constexpr (requires(Example example) { example.data; })
    return kIsValue<decltype(Example::data)>;
  else
    return kIsValue<Example>;
}
/// The same of what a source returns: a vector of examples, or a stack of them.
template <class Batch>
constexpr bool kHasExamples = is_example<Batch>();
template <class Example>
constexpr bool kHasExamples<std::vector<Example>> = is_example<Example>();

template <class Value>
Element value_of(const Value& value) {
  if constexpr (std::is_arithmetic_v<Value>)
    return Element(at::scalar_tensor(value, c10::CppTypeToScalarType<Value>::value));
  else
    return Element(value);
}

/// An example, or a batch of them that a transform has stacked: {"data": ..., "target": ...}, or the data
/// alone where there is no target.
template <class Example>
Element element_of(const Example& example) {
  if constexpr (requires { example.target; })
    return Element::dict({{"data", value_of(example.data)}, {"target", value_of(example.target)}});
  else if constexpr (requires { example.data; })
    return value_of(example.data);
  else
    return value_of(example);
}

template <class Value>
Value part_of(const Element& element) {
  if constexpr (std::is_arithmetic_v<Value>)
    return element.tensor().item<Value>();
  else
    return element.tensor();
}

/// The reverse of `element_of`.
template <class Example>
Example example_of(const Element& element) {
  if constexpr (requires(Example example) { example.target; })
    return {part_of<decltype(Example::data)>(element["data"]),
            part_of<decltype(Example::target)>(element["target"])};
  else if constexpr (requires(Example example) { example.data; })
    return {part_of<decltype(Example::data)>(element)};
  else
    return part_of<Example>(element);
}

/// Row `row` of an element.
inline Element row_of(const Element& batch, std::int64_t row) {
  std::vector<Leaf> leaves;
  for (std::size_t leaf = 0; leaf < batch.leaves().size(); ++leaf)
    leaves.emplace_back(batch.tensor(leaf).select(0, row));
  return {batch.structure(), std::move(leaves)};
}

/// The rows of a batch as elements.
template <class Batch>
std::vector<Element> rows_of(const Batch& batch) {
  std::vector<Element> rows;
  if constexpr (kIsVector<Batch>) {
    for (const auto& example : batch) rows.push_back(element_of(example));
  } else {
    const Element whole = element_of(batch);
    for (std::int64_t row = 0; row < whole.rows().value_or(0); ++row) rows.push_back(row_of(whole, row));
  }
  return rows;
}

/// A source with indices. torch's are not safe from several threads, so calls take turns.
template <class Source>
class Rows final : public RowSource {
 public:
  explicit Rows(Source source) : source_(std::move(source)) {
    const std::optional<std::size_t> size = source_.size();
    TORCH_CHECK_VALUE(size, "from_torch_data: a dataset with indices must have a size.");
    size_ = static_cast<std::int64_t>(*size);
  }
  std::int64_t size() const override { return size_; }
  std::vector<Element> rows(std::span<const std::int64_t> positions) const override {
    const std::vector<std::size_t> indices(positions.begin(), positions.end());
    const std::lock_guard lock(mutex_);
    return rows_of(source_.get_batch(indices));
  }
  bool runs_user_code() const override { return true; }  // it may read files
  std::string name() const override { return "torch_data"; }

 private:
  mutable Source source_;
  std::int64_t size_ = 0;
  mutable std::mutex mutex_;
};

/// A stream: each run reads a copy of it, as it was when the pipeline was made.
template <class Source>
class Stream final : public GeneratorSource {
 public:
  explicit Stream(Source source) : source_(std::move(source)) {}
  std::unique_ptr<Generator> open() const override { return std::make_unique<Run>(source_); }
  bool runs_user_code() const override { return true; }
  std::string name() const override { return "torch_data"; }

 private:
  class Run final : public Generator {
   public:
    explicit Run(const Source& source) : source_(source) {
      if constexpr (Source::is_stateful) source_.reset();
    }
    std::optional<Element> next() override {
      if constexpr (std::is_same_v<typename Source::BatchType, BatchOf<Source>>) {
        return first(source_.get_batch(1));
      } else {
        const auto batch = source_.get_batch(1);
        return batch ? first(*batch) : std::nullopt;
      }
    }

   private:
    static std::optional<Element> first(const BatchOf<Source>& batch) {
      std::vector<Element> rows = rows_of(batch);
      return rows.empty() ? std::nullopt : std::optional(std::move(rows.front()));
    }

    Source source_;
  };

  Source source_;
};

}  // namespace torch_data

/// The examples of a dataset of `torch::data` as elements: {"data": ..., "target": ...}, or the data alone
/// where examples have no target. Datasets with indices (`Dataset`, `BatchDataset`, and those with
/// transforms) have random access; rows that a transform has stacked are taken apart again. Streams are read
/// one example at a time, each iterator from a copy of `source`; those must be copyable. Data and targets are
/// tensors or numbers; a program with an example type of its own maps it to one of torch's.
template <class Source>
Dataset from_torch_data(Source source) {
  static_assert(
      torch_data::kHasExamples<torch_data::BatchOf<Source>>,
      "from_torch_data, make_data_loader: examples are torch::data::Example or TensorExample of tensors "
      "or numbers, tensors, or numbers; make these of a type of your own: "
      "`.map(torch::data::transforms::Lambda<Own, torch::data::Example<>>(function))`");
  if constexpr (torch_data::kHasIndices<Source>)
    return Dataset::from_rows(std::make_shared<torch_data::Rows<Source>>(std::move(source)));
  else
    return Dataset::from_generator(std::make_shared<torch_data::Stream<Source>>(std::move(source)),
                                   std::nullopt);
}

/// What torch's options lack, for `make_data_loader`.
struct LoaderOptions {
  /// Where batches lie. Empty: on the CPU, or with `group` where MultiWorkerMirroredStrategy puts them.
  std::string device = {};
  /// Shares the rows over its processes; `batch_size` is that of one process.
  std::optional<ProcessGroup> group = {};
  Tail tail = Tail::kZeroRows;            ///< what the last step of several processes holds
  std::optional<std::int64_t> seed = {};  ///< of the random order; unset: drawn once
};

/// The batches of a dataset of `torch::data`, as `torch::data::StatelessDataLoader` has them: each pass is an
/// epoch. One thread at a time.
template <class Source>
class TorchDataLoader {
 public:
  using Batch = torch_data::BatchOf<Source>;

  TorchDataLoader(const Strategy& strategy, const Dataset& batches, const InputOptions& options)
      : dataset_(strategy.distribute_dataset(batches, options)) {}

  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = Batch*;
    using reference = Batch&;
    iterator() = default;
    explicit iterator(std::shared_ptr<DistributedIterator> steps) : steps_(std::move(steps)) { ++*this; }
    Batch& operator*() & { return *batch_; }
    Batch operator*() && { return *std::move(batch_); }
    Batch* operator->() { return &*batch_; }
    iterator& operator++() {
      const std::optional<PerReplica> step = steps_->next();
      batch_.reset();
      if (step) batch_.emplace(batch_of((*step)[0]));
      return *this;
    }
    bool operator==(const iterator& other) const { return batch_.has_value() == other.batch_.has_value(); }

   private:
    static Batch batch_of(const Element& element) {
      if constexpr (torch_data::kIsVector<Batch>) {
        Batch examples;
        for (std::int64_t row = 0; row < element.rows().value_or(0); ++row)
          examples.push_back(
              torch_data::example_of<typename Batch::value_type>(torch_data::row_of(element, row)));
        return examples;
      } else {
        return torch_data::example_of<Batch>(element);
      }
    }

    std::shared_ptr<DistributedIterator> steps_;
    std::optional<Batch> batch_;
  };

  /// Begins the next epoch, or continues the one that `load` went to.
  iterator begin() {
    steps_ = loaded_ ? std::exchange(loaded_, nullptr) : open();
    return iterator(steps_);
  }
  iterator end() { return {}; }

  /// The position after the batch last returned, as `DistributedIterator::save`.
  State save() { return (loaded_ ? loaded_ : steps_ ? steps_ : open())->save(); }
  /// The next `begin` continues at a saved position.
  void load(const State& state) {
    loaded_ = open();
    loaded_->load(state);
  }
  /// How many rows of the last batch count, on this process and on all. REQUIRES: there was one.
  const StepInfo& step_info() const& { return steps_->step_info(); }
  StepInfo step_info() const&& { return step_info(); }
  /// The dataset that is read, for `explain`.
  DistributedDataset dataset() const { return dataset_; }

 private:
  std::shared_ptr<DistributedIterator> open() const {
    return std::make_shared<DistributedIterator>(dataset_.iterate());
  }

  DistributedDataset dataset_;
  std::shared_ptr<DistributedIterator> steps_;
  std::shared_ptr<DistributedIterator> loaded_;
};

/// As `torch::data::make_data_loader`: the batches of `source` in random order, or with `SequentialSampler`
/// in their own. `options` are torch's `DataLoaderOptions` or a batch size: `batch_size`, `drop_last` and
/// `workers` (0: nothing is read ahead) count; batches always come in order, and `max_jobs` and `timeout`
/// have no meaning here. A batch is what torch's loader returns: a vector of examples, or what the last
/// transform made of it. Throws c10::ValueError for a batch size of 0.
template <class Sampler = torch::data::samplers::RandomSampler, class Source, class Options>
std::unique_ptr<TorchDataLoader<Source>> make_data_loader(Source source, const Options& options,
                                                          const LoaderOptions& more = {}) {
  constexpr bool kRandom = std::is_same_v<Sampler, torch::data::samplers::RandomSampler>;
  static_assert(
      kRandom || std::is_same_v<Sampler, torch::data::samplers::SequentialSampler>,
      "make_data_loader: the sampler is RandomSampler or SequentialSampler; with `group` both share the "
      "rows over the processes");
  std::int64_t batch_size = 0;
  bool drop_last = false;
  InputOptions input{.tail = more.tail};
  if constexpr (requires { options.batch_size(); }) {
    batch_size = static_cast<std::int64_t>(options.batch_size());
    drop_last = options.drop_last();
    if (options.workers() == 0) input.per_replica_buffer_size = 0;
  } else {
    batch_size = static_cast<std::int64_t>(options);
    input.per_replica_buffer_size = 0;
  }
  const std::vector<std::string> devices =
      more.device.empty() ? std::vector<std::string>{} : std::vector<std::string>{more.device};
  const std::int64_t processes = more.group ? more.group->size : 1;
  Dataset rows = from_torch_data(std::move(source));
  if constexpr (kRandom) rows = rows.shuffle({.seed = more.seed});
  const Dataset batches = rows.batch(batch_size * processes, {.drop_remainder = drop_last});
  if (more.group) {
    const MultiWorkerMirroredStrategy strategy(*more.group, devices);
    return std::make_unique<TorchDataLoader<Source>>(strategy, batches, input);
  }
  const OneDeviceStrategy strategy(devices.empty() ? "cpu" : devices.front());
  return std::make_unique<TorchDataLoader<Source>>(strategy, batches, input);
}

}  // namespace torch_distinput
