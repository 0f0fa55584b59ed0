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
#include "torch_distinput/images.h"
#include "torch_distinput/node.h"
#include "torch_distinput/op_info.h"
#include "torch_distinput/options.h"
#include "torch_distinput/records.h"
#include "torch_distinput/row_cost.h"
#include "torch_distinput/row_ledger.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// For `Dataset::with_other_functions`.
using OtherFunction = std::function<FunctionPtr(const FunctionPtr& function, const MapOptions& options)>;

/// A copyable handle on an immutable node: it describes the data and holds no position in it. Every op is a
/// const method that returns a new handle; the same chain of calls works in Python. An op throws
/// c10::ValueError or c10::TypeError for wrong arguments when it is called; errors of the data come from
/// `next`. Safe from any thread.
///
/// A handle and its copies count epochs together: a new iterator starts the next epoch if an iterator of the
/// current one has returned an element.
class TDI_API Dataset : public ImageOps<Dataset> {
 public:
  /// Throws c10::ValueError for a null `node`.
  explicit Dataset(NodePtr node);

  // Sources.

  /// int64 scalars 0, 1, ..., `stop` - 1.
  static Dataset range(std::int64_t stop);
  /// int64 scalars `start`, `start` + `step`, ... before `stop`. Throws c10::ValueError for a `step` of 0.
  static Dataset range(std::int64_t start, std::int64_t stop, std::int64_t step = 1);
  /// One element: a copy of `value`, which the dataset holds.
  static Dataset from_tensors(Element value);
  /// One element for each index along dim 0 of the leaves of `value`, which the dataset holds; elements are
  /// copies of its rows. Throws c10::ValueError for no leaves, a scalar leaf and leaves that differ in dim 0.
  static Dataset from_tensor_slices(Element value);
  /// The elements of a generator that is opened anew for each iterator. Each element is checked against
  /// `element_spec`, or against the type of the first one where it is unset; `next` throws c10::ValueError
  /// for an element that does not fit.
  static Dataset from_generator(std::shared_ptr<const GeneratorSource> source,
                                std::optional<ElementSpec> element_spec);
  /// As above, with `open` returning a function that returns one element a call, and nullopt at the end.
  static Dataset from_generator(std::function<std::function<std::optional<Element>()>()> open,
                                ElementSpec element_spec);
  /// The rows of a random-access source, each one element.
  static Dataset from_rows(std::shared_ptr<const RowSource> source);
  /// The names of the files that match one of `patterns` (`*`, `?`, `[...]`; in URLs also `**` and braces) as
  /// UTF-8 strings, each once, sorted before they are shuffled. Throws NotFoundError naming a pattern without
  /// a match, SystemError for a folder that cannot be read, and RemoteError for a store that cannot be
  /// listed.
  static Dataset list_files(const std::vector<std::string>& patterns, ListFilesOptions options = {});
  /// Elements of the datasets side by side in `structure`, which has one leaf for each dataset; ends with the
  /// shortest dataset.
  static Dataset zip(StructurePtr structure, std::vector<Dataset> datasets);
  /// The same in a tuple.
  static Dataset zip(std::vector<Dataset> datasets);
  /// Each element comes from a dataset drawn at random by the weights; see `SampleOptions`. Random access if
  /// all datasets have it. Throws c10::ValueError for bad weights or different element types.
  static Dataset sample_from_datasets(std::vector<Dataset> datasets, SampleOptions options = {});
  /// Element k comes from the dataset whose index is element k of `choice`, an int64 scalar. Ends with
  /// `choice`, or when the chosen dataset has ended. Random access if all of them have it, for up to 2^27
  /// choices: iterators then read those of the epoch first. Reading throws c10::ValueError for another index,
  /// and c10::TypeError for another type.
  static Dataset choose_from_datasets(std::vector<Dataset> datasets, const Dataset& choice);

  // Ops.

  /// `batch_size` consecutive elements stacked along a new dim 0: the global batch once distributed. The last
  /// batch may be shorter, unless `drop_remainder`.
  Dataset batch(std::int64_t batch_size, BatchOptions options = {}) const;
  /// As above, with sizes that change with the number of the batch, counted from 0 in each epoch and round of
  /// `repeat`. Entries are in the order of their steps, the first at step 0. Throws c10::ValueError
  /// otherwise, and for a size below 1.
  Dataset batch(std::vector<BatchSizeFrom> schedule, BatchOptions options = {}) const;
  /// As `batch`, but tensors whose dims are not all known statically become rows of varying length.
  Dataset ragged_batch(std::int64_t batch_size, BatchOptions options = {}) const;
  /// The rows along dim 0 as elements.
  Dataset unbatch() const;
  /// The rows of batches regrouped, across the borders of batches, into sizes taken in turn. Sizes are at
  /// least 0, and one is above 0.
  Dataset rebatch(std::vector<std::int64_t> batch_sizes, BatchOptions options = {}) const;
  /// Elements in random order. A full shuffle needs random access and a known length, and no memory for a
  /// buffer; throws c10::ValueError where the length is unknown or infinite. A shuffle of blocks
  /// (`ShuffleOptions::blocks`) needs the same, and reads each block (a row group, or about 8 MiB) within a
  /// small part of the epoch: blocks are dealt to lanes, which take turns; the blocks of a lane come in
  /// random order, and their rows are shuffled in windows of so many blocks. The number of lanes follows from
  /// the data alone, never from the ranks; `Split::kLanes` gives each rank lanes of its own.
  Dataset shuffle(ShuffleOptions options = {}) const;
  /// The elements `count` times; unset or -1: without end.
  Dataset repeat(std::optional<std::int64_t> count = {}) const;
  /// The first `count` elements; -1: all of them.
  Dataset take(std::int64_t count) const;
  /// All but the first `count` elements; -1: none of them.
  Dataset skip(std::int64_t count) const;
  /// Elements `index`, `index` + `num_shards`, ...; `index` is in [0, `num_shards`). `shard(kShardHint, 0)`
  /// marks the place where policy HINT shards.
  Dataset shard(std::int64_t num_shards, std::int64_t index) const;
  /// Elements `indices[0]`, `indices[1]`, ... (int64, one dim, copied; repeats are allowed). Throws
  /// c10::IndexError for an index that is negative or not below the number of elements: at once where that
  /// number is known, else from `next`.
  Dataset select(const at::Tensor& indices) const;
  /// `num_samples` (>= 1) elements, each drawn at random with a probability in proportion to its weight, anew
  /// in each epoch and each round of `repeat`. `weights`: one real number for each element, copied, finite
  /// and at least 0, not all 0. Element k is a function of seed, epoch and k alone. With replacement a table
  /// of 16 bytes an element makes each draw O(1). Without, the first draw of an epoch orders the elements,
  /// and at most as many can be drawn as have a weight above 0. Needs random access; throws c10::ValueError
  /// where the number of elements is unknown or infinite.
  Dataset sample(const at::Tensor& weights, std::int64_t num_samples, DrawOptions options = {}) const;
  /// Tuples of an int64 scalar, counted from `start`, and the element.
  Dataset enumerate(std::int64_t start = 0) const;
  /// The elements of this dataset, then those of `other`. Throws c10::ValueError for different element types.
  Dataset concatenate(const Dataset& other) const;
  /// Keeps elements in memory once they were read. The ops before it run as in epoch 0 in every epoch. With
  /// `shared` a row is made by one of the ranks that a launcher has started on this host, and kept once for
  /// all of them: they must make the same rows, which needs random access, and tensors or strings as leaves.
  /// Where the rows of two ranks differ, `next` throws c10::ValueError; it looks at one row of each.
  Dataset cache(CacheOptions options = {}) const;
  /// Reads up to `buffer_size` elements ahead on another thread; -1: the library chooses; 0: none.
  Dataset prefetch(std::int64_t buffer_size) const;
  /// The function's result for each element.
  Dataset map(FunctionPtr function, MapOptions options = {}) const;
  Dataset map(std::function<Element(Element)> function, MapOptions options = {}) const;
  /// Keeps the elements for which `predicate` returns a bool scalar that is true. `next` throws
  /// c10::TypeError if it returns something else.
  Dataset filter(FunctionPtr predicate) const;
  Dataset filter(std::function<bool(const Element&)> predicate) const;
  /// The elements of the datasets that `function` returns for the elements, one dataset after the other.
  /// `next` throws c10::TypeError if it returns something else.
  Dataset flat_map(FunctionPtr function) const;
  Dataset flat_map(std::function<Dataset(Element)> function) const;
  /// As `flat_map`, with `cycle_length` of these datasets taking turns.
  Dataset interleave(FunctionPtr function, InterleaveOptions options = {}) const;
  Dataset interleave(std::function<Dataset(Element)> function, InterleaveOptions options = {}) const;
  /// The same pipeline with other functions in its `map`s, which return the same: `other` gets the function
  /// of a `map` and its options, and returns another one, or null where that stays. Names, states and random
  /// numbers stay. Datasets that functions return are not looked through.
  Dataset with_other_functions(const OtherFunction& other) const;
  /// Elements whose leaves are datasets of `size` consecutive values of that leaf; the last ones may hold
  /// fewer.
  Dataset window(std::int64_t size) const;
  /// As `batch`, with rows padded at the end of each dim to one shape.
  Dataset padded_batch(std::int64_t batch_size, PaddedBatchOptions options = {}) const;
  /// Batches of elements of similar length. `length` returns an int scalar.
  Dataset bucket_by_length(FunctionPtr length, BucketOptions options) const;
  Dataset bucket_by_length(std::function<std::int64_t(const Element&)> length, BucketOptions options) const;
  /// Padded batches of rows of similar cost, whose costs add up to at most `budget`, a positive number:
  /// within windows of rows, about as few batches as possible, of about equal costs. `next` throws
  /// c10::ValueError for a row that costs more than the budget alone. With a tensor of costs, the input must
  /// have random access, and the batches have it too; otherwise they can only be read in order.
  Dataset batch_by_cost(RowCost cost, double budget, CostBatchOptions options = {}) const;
  /// Documents of tokens (int64 or int32, one dim, any length) joined to rows of `sequence_length` tokens.
  /// Elements are dicts: `tokens`; `position_ids`, counted from 0 in each document; `loss_mask`, true for
  /// tokens with one before them in the same document; and `cu_seqlens` (int32), the bounds of documents, in
  /// which what is padded counts as a document and the last bound is repeated. A document that was cut begins
  /// anew in the next row. Rows have random access where the elements have it and know their lengths without
  /// being read, which `with_lengths` does for any that have random access.
  Dataset pack(std::int64_t sequence_length, PackOptions options = {}) const;
  /// The same elements with known lengths along dim 0, so that `pack` need not read them to know its rows.
  /// The lengths are read from a file, or counted once by reading all elements, and stored. What the file was
  /// made from (ops, files, number of elements) is compared; an element of another length is an error when it
  /// is read. Throws c10::ValueError where the order is drawn anew in each epoch, and when it is read,
  /// InvalidArgumentError for a file of something else.
  Dataset with_lengths(LengthOptions options = {}) const;
  /// Each distinct element once, at its first place. Keeps the distinct elements in memory.
  Dataset unique() const;
  /// Declares the number of elements, or `kInfiniteCardinality`. `next` throws FailedPreconditionError where
  /// the data has another number.
  Dataset assert_cardinality(std::int64_t cardinality) const;
  /// Turns every uint8 leaf with at least 3 dims a row into numbers, (byte / 255 - mean) / std with one entry
  /// of `mean` and `std` for each channel, computed as one fma with rounded factors. The channels are the
  /// last dim if its size is the number of entries, else the third last. Throws c10::ValueError if neither
  /// is.
  Dataset normalize_images(std::vector<double> mean, std::vector<double> std,
                           ImageOptions options = {}) const;
  /// Strings as `dtype` numbers [shape...] in the machine's byte order; of `shape` the first size may be
  /// `kUnknownDim`. `key` names the leaf, here and below; unset: the only leaf of strings. A column of
  /// strings becomes rows. `next` throws InvalidArgumentError for a string of another length.
  Dataset decode_raw(c10::ScalarType dtype, Dims shape = {}, std::optional<LeafKey> key = {}) const;
  /// Strings as numbers that they spell out: float32, float64, int32 or int64.
  Dataset to_number(c10::ScalarType dtype = c10::ScalarType::Float, std::optional<LeafKey> key = {}) const;
  /// tf.train.Example messages as a dict of `features` (torch_distinput/records.h), as tf.io.parse_example.
  /// `next` throws InvalidArgumentError for a malformed message and for values that do not fit.
  Dataset parse_example(Features features, std::optional<LeafKey> key = {}) const;
  /// tf.train.SequenceExample messages as a tuple of two dicts: the features of the context, and the lists of
  /// features. Of single records only; otherwise as `parse_example`.
  Dataset parse_sequence_example(Features context_features, SequenceFeatures sequence_features,
                                 std::optional<LeafKey> key = {}) const;
  /// TensorProto messages, as tf.io.serialize_tensor writes them, as tensors of `dtype`. `shape` may have
  /// unknown sizes; unset: any. In a batch all tensors must have one shape.
  Dataset parse_tensor(c10::ScalarType dtype, std::optional<Dims> shape = {},
                       std::optional<LeafKey> key = {}) const;
  /// The members of dicts (`TarDataset`) decoded by the last part of their suffix: `cls` as an int64 scalar,
  /// `txt` and `json` as UTF-8 text, `npy` as an array of the dtype and the number of dims of the first one;
  /// others stay bytes. `next` throws InvalidArgumentError for damage.
  Dataset decode_members() const;
  /// `function(*this)`: gives a chain of ops a name.
  Dataset apply(const std::function<Dataset(const Dataset&)>& function) const;
  /// The same elements; fields that `options` sets replace those set earlier in the chain. Throws
  /// c10::ValueError for values out of range.
  Dataset with_options(Options options) const;

  // Questions.

  /// The last op of the pipeline.
  NodePtr node() const noexcept { return node_; }
  /// Elements an epoch, `kInfiniteCardinality` or `kUnknownCardinality`. May count the records of files; then
  /// it throws as reading them does.
  std::int64_t cardinality() const;
  /// The type of the elements. May run functions on the first element, once. Throws c10::ValueError where the
  /// type cannot be known.
  ElementSpec element_spec() const;
  /// The options of the whole chain; later ones win field by field.
  Options options() const { return node_->options(); }
  /// Whether a random op has no seed of its own, so that the seed of the options decides the order, or else a
  /// drawn one.
  bool unseeded() const;
  /// The ops of the pipeline and how the next iterator would run them; the inputs of an op stand before it.
  /// May run functions on the first element, once, and may count the records of files; of objects only where
  /// they have an index (`lacks_index`).
  std::vector<OpInfo> ops() const;
  /// What an epoch reads over networks, in lines "name: fact": files, bytes, requests and their price, and
  /// what is slow about it; none where it reads nothing so. Reads no rows, but asks stores for the sizes of
  /// up to 1,000 objects, and for indexes.
  std::vector<std::string> network_facts() const;
  /// Whether its rows can be counted and shuffled only after an index of objects was made, which reads all
  /// bytes of them.
  bool lacks_index() const;
  /// `ops` as a table with a line for each, and the `network_facts`.
  std::string explain() const;

  // Iterators.

  /// Opens a new iterator. Throws c10::ValueError for a negative epoch.
  DatasetIterator iterate(IterateOptions options = {}) const;
  /// Which rows are in each element of an epoch. Throws c10::ValueError, naming the op, where the pipeline
  /// has no random access, and for a negative epoch.
  RowLedger ledger(const LedgerEpoch& epoch) const;
  /// The next iterator runs `epoch`, which must be at least 0, and later ones count on from it.
  void set_epoch(std::int64_t epoch) const;

  /// An input iterator over one epoch, so that `for (const Element& e : dataset)` works. One thread at a
  /// time; a reference to an element is valid until `++`, and `*` of a temporary is a copy.
  class TDI_API const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Element;
    using difference_type = std::ptrdiff_t;
    using pointer = const Element*;
    using reference = const Element&;
    const_iterator() = default;
    explicit const_iterator(std::shared_ptr<DatasetIterator> iterator);
    const Element& operator*() const& { return *current_; }
    Element operator*() const&& { return *current_; }
    const Element* operator->() const { return &*current_; }
    const_iterator& operator++();
    bool operator==(const const_iterator& other) const {
      return current_.has_value() == other.current_.has_value();
    }

   private:
    std::shared_ptr<DatasetIterator> iterator_;
    std::optional<Element> current_;
  };
  /// Opens an iterator (`iterate()`) and reads its first element.
  const_iterator begin() const;
  const_iterator end() const { return {}; }

 private:
  struct Epochs;
  NodePtr node_;
  std::shared_ptr<Epochs> epochs_;
};

}  // namespace torch_distinput
