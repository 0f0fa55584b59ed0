// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/dataset_iterator.h"
#include "torch_distinput/dataset_options.h"
#include "torch_distinput/element.h"
#include "torch_distinput/function.h"
#include "torch_distinput/node.h"
#include "torch_distinput/options.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// A copyable handle on an immutable node: what the data is, never where one is
/// in it. Every op is a const method that returns a new handle; the text of a
/// pipeline is the same in Python. Wrong arguments throw when the op is called.
/// A handle and its copies count epochs together: a new iterator starts the next
/// epoch if the one before handed anything out.
class TDI_API Dataset {
 public:
  explicit Dataset(NodePtr node);

  // Sources.
  static Dataset range(std::int64_t stop);
  static Dataset range(std::int64_t start, std::int64_t stop, std::int64_t step = 1);
  /// One element.
  static Dataset from_tensors(Element value);
  /// One element for each index along dim 0 of the leaves, which must agree.
  static Dataset from_tensor_slices(Element value);
  static Dataset from_generator(std::shared_ptr<const GeneratorSource> source,
                                std::optional<ElementSpec> element_spec);
  static Dataset from_generator(std::function<std::function<std::optional<Element>()>()> open,
                                ElementSpec element_spec);
  static Dataset from_rows(std::shared_ptr<const RowSource> source);
  /// The names of the files that match one of `patterns` (`*`, `?`, `[...]`), sorted
  /// before they are shuffled. Throws NotFoundError naming a pattern without a match.
  static Dataset list_files(const std::vector<std::string>& patterns, ListFilesOptions options = {});
  /// Elements of the datasets side by side in `structure` (a leaf for each
  /// dataset); ends with the shortest.
  static Dataset zip(StructurePtr structure, std::vector<Dataset> datasets);
  static Dataset zip(std::vector<Dataset> datasets);
  /// Each element comes from a dataset drawn at random; one that ended is drawn no
  /// more. Throws c10::ValueError for bad weights or different element types.
  static Dataset sample_from_datasets(std::vector<Dataset> datasets, SampleOptions options = {});
  /// Element k comes from the dataset whose index element k of `choice` (an int64
  /// scalar) is. Ends with `choice`, or when the dataset that is chosen has ended.
  static Dataset choose_from_datasets(std::vector<Dataset> datasets, const Dataset& choice);

  // Ops.
  Dataset batch(std::int64_t batch_size, BatchOptions options = {}) const;
  /// As `batch`, but tensors whose dims are not all known statically become rows of varying length.
  Dataset ragged_batch(std::int64_t batch_size, BatchOptions options = {}) const;
  Dataset unbatch() const;
  Dataset rebatch(std::vector<std::int64_t> batch_sizes, BatchOptions options = {}) const;
  Dataset shuffle(ShuffleOptions options = {}) const;
  /// `count` unset or -1: for ever.
  Dataset repeat(std::optional<std::int64_t> count = {}) const;
  /// `count` -1: all of it.
  Dataset take(std::int64_t count) const;
  Dataset skip(std::int64_t count) const;
  Dataset shard(std::int64_t num_shards, std::int64_t index) const;
  /// Elements `indices[0]`, `indices[1]`, ... (int64, one dim, as often as they occur). Throws
  /// c10::IndexError for an index that is negative or not below a known number of elements.
  Dataset select(const at::Tensor& indices) const;
  Dataset enumerate(std::int64_t start = 0) const;
  Dataset concatenate(const Dataset& other) const;
  Dataset cache() const;
  Dataset prefetch(std::int64_t buffer_size) const;
  Dataset map(FunctionPtr function, MapOptions options = {}) const;
  Dataset map(std::function<Element(Element)> function, MapOptions options = {}) const;
  /// Keeps the elements for which `predicate` yields a true bool scalar.
  Dataset filter(FunctionPtr predicate) const;
  Dataset filter(std::function<bool(const Element&)> predicate) const;
  /// The elements of the datasets that `function` makes of the elements, one dataset
  /// after the other. `next` throws c10::TypeError if it returns something else.
  Dataset flat_map(FunctionPtr function) const;
  Dataset flat_map(std::function<Dataset(Element)> function) const;
  /// The same with `cycle_length` of these datasets taking turns.
  Dataset interleave(FunctionPtr function, InterleaveOptions options = {}) const;
  Dataset interleave(std::function<Dataset(Element)> function, InterleaveOptions options = {}) const;
  /// Elements whose leaves are datasets of `size` consecutive values of that leaf;
  /// the last ones may hold fewer.
  Dataset window(std::int64_t size) const;
  /// A batch whose rows are padded at their ends to one shape.
  Dataset padded_batch(std::int64_t batch_size, PaddedBatchOptions options = {}) const;
  /// Batches of elements of similar length. `length` yields an int scalar.
  Dataset bucket_by_length(FunctionPtr length, BucketOptions options) const;
  Dataset bucket_by_length(std::function<std::int64_t(const Element&)> length, BucketOptions options) const;
  /// Each distinct element once, where it comes first.
  Dataset unique() const;
  /// Says how many elements there are, `kInfiniteCardinality` included. `next` throws
  /// FailedPreconditionError where the data turns out to differ.
  Dataset assert_cardinality(std::int64_t cardinality) const;
  /// Every uint8 leaf with at least 3 dims a row as numbers, (byte / 255 - mean) / std with an entry of
  /// `mean` and `std` for each channel, as one fma with rounded factors. The last dim is the channels if it
  /// is as many as there are entries, else the third last. Throws c10::ValueError if neither is.
  Dataset normalize_images(std::vector<double> mean, std::vector<double> std,
                           ImageOptions options = {}) const;
  /// `function(*this)`: a chain of ops with a name.
  Dataset apply(const std::function<Dataset(const Dataset&)>& function) const { return function(*this); }
  Dataset with_options(Options options) const;

  // Questions.
  const NodePtr& node() const noexcept { return node_; }
  std::int64_t cardinality() const;
  /// Throws c10::ValueError where the spec cannot be known.
  ElementSpec element_spec() const;
  Options options() const { return node_->options(); }
  /// A line an op: its arguments, path, cardinality and spec.
  std::string explain() const;

  // Iterators.
  DatasetIterator iterate(IterateOptions options = {}) const;
  /// Pins the epoch of the next iterator.
  void set_epoch(std::int64_t epoch) const;

  /// An input iterator, so that `for (const Element& e : dataset)` works.
  class TDI_API const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Element;
    using difference_type = std::ptrdiff_t;
    using pointer = const Element*;
    using reference = const Element&;
    const_iterator() = default;
    explicit const_iterator(std::shared_ptr<DatasetIterator> iterator);
    const Element& operator*() const { return *current_; }
    const Element* operator->() const { return &*current_; }
    const_iterator& operator++();
    bool operator==(const const_iterator& other) const {
      return current_.has_value() == other.current_.has_value();
    }

   private:
    std::shared_ptr<DatasetIterator> iterator_;
    std::optional<Element> current_;
  };
  const_iterator begin() const;
  const_iterator end() const { return {}; }

 private:
  struct Epochs;
  NodePtr node_;
  std::shared_ptr<Epochs> epochs_;
};

}  // namespace torch_distinput
