// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/dataset.h"

#include <utility>

#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include "api/dataset_iterator.h"
#include "api/row_ledger.h"
#include "execution/any_op.h"
#include "execution/epoch_count.h"
#include "execution/other_functions.h"
#include "execution/unseeded.h"
#include "ops/ops.h"
#include "sources/sources.h"

namespace torch_distinput {
namespace {

using NextFunction = std::function<std::optional<Element>()>;

class FunctionGenerator final : public Generator {
 public:
  explicit FunctionGenerator(NextFunction next) : next_(std::move(next)) {}
  std::optional<Element> next() override { return next_(); }

 private:
  NextFunction next_;
};

class FunctionGeneratorSource final : public GeneratorSource {
 public:
  explicit FunctionGeneratorSource(std::function<NextFunction()> open) : open_(std::move(open)) {
    TORCH_CHECK_VALUE(open_, "from_generator: `open` must not be empty.");
  }
  std::unique_ptr<Generator> open() const override { return std::make_unique<FunctionGenerator>(open_()); }

 private:
  std::function<NextFunction()> open_;
};

std::vector<NodePtr> nodes_of(const std::vector<Dataset>& datasets) {
  std::vector<NodePtr> nodes;
  for (const Dataset& dataset : datasets) nodes.push_back(dataset.node());
  return nodes;
}

/// `function`, which must not be empty, for the argument `name` of `op`.
template <class Callable>
Callable given(Callable function, const char* op, const char* name) {
  TORCH_CHECK_VALUE(function, op, ": `", name, "` must not be empty.");
  return function;
}

FunctionPtr dataset_function(std::function<Dataset(Element)> function) {
  return make_function([function = std::move(function)](Element element) {
    return Element(Structure::leaf(), {function(std::move(element)).node()});
  });
}

}  // namespace

struct Dataset::Epochs : EpochCount {};

Dataset::Dataset(NodePtr node) : node_(std::move(node)), epochs_(std::make_shared<Epochs>()) {
  TORCH_CHECK_VALUE(node_ != nullptr, "Dataset: `node` must not be null.");
}

Dataset Dataset::range(std::int64_t stop) { return range(0, stop, 1); }
Dataset Dataset::range(std::int64_t start, std::int64_t stop, std::int64_t step) {
  return Dataset(sources::range(start, stop, step));
}
Dataset Dataset::from_tensors(Element value) { return Dataset(sources::tensors(std::move(value))); }
Dataset Dataset::from_tensor_slices(Element value) {
  return Dataset(sources::tensor_slices(std::move(value)));
}
Dataset Dataset::from_generator(std::shared_ptr<const GeneratorSource> source,
                                std::optional<ElementSpec> element_spec) {
  return Dataset(sources::generator(std::move(source), std::move(element_spec)));
}
Dataset Dataset::from_generator(std::function<NextFunction()> open, ElementSpec element_spec) {
  return from_generator(std::make_shared<FunctionGeneratorSource>(std::move(open)), std::move(element_spec));
}
Dataset Dataset::from_rows(std::shared_ptr<const RowSource> source) {
  return Dataset(sources::rows(std::move(source)));
}

Dataset Dataset::zip(StructurePtr structure, std::vector<Dataset> datasets) {
  TORCH_CHECK_VALUE(structure != nullptr, "zip: `structure` must not be null.");
  return Dataset(ops::zip(std::move(structure), nodes_of(datasets)));
}
Dataset Dataset::zip(std::vector<Dataset> datasets) {
  auto structure = Structure::tuple(std::vector<StructurePtr>(datasets.size(), Structure::leaf()));
  return zip(std::move(structure), std::move(datasets));
}

Dataset Dataset::sample_from_datasets(std::vector<Dataset> datasets, SampleOptions options) {
  return Dataset(ops::sample_from_datasets(nodes_of(datasets), std::move(options)));
}
Dataset Dataset::choose_from_datasets(std::vector<Dataset> datasets, const Dataset& choice) {
  return Dataset(ops::choose_from_datasets(nodes_of(datasets), choice.node()));
}

Dataset Dataset::batch(std::int64_t batch_size, BatchOptions options) const {
  return Dataset(ops::batch(node_, batch_size, options.drop_remainder));
}
Dataset Dataset::batch(std::vector<BatchSizeFrom> schedule, BatchOptions options) const {
  return Dataset(ops::batch(node_, std::move(schedule), options.drop_remainder));
}
Dataset Dataset::ragged_batch(std::int64_t batch_size, BatchOptions options) const {
  return Dataset(ops::ragged_batch(node_, batch_size, options.drop_remainder));
}
Dataset Dataset::unbatch() const { return Dataset(ops::unbatch(node_)); }
Dataset Dataset::rebatch(std::vector<std::int64_t> batch_sizes, BatchOptions options) const {
  return Dataset(ops::rebatch(node_, std::move(batch_sizes), options.drop_remainder));
}
Dataset Dataset::shuffle(ShuffleOptions options) const {
  // A full shuffle needs the length. Where a file cannot be counted, its own error says more than "unknown".
  if (!options.buffer_size) node_->checked_cardinality();
  return Dataset(ops::shuffle(node_, options));
}
Dataset Dataset::repeat(std::optional<std::int64_t> count) const {
  return Dataset(ops::repeat(node_, count));
}
Dataset Dataset::take(std::int64_t count) const { return Dataset(ops::take(node_, count)); }
Dataset Dataset::skip(std::int64_t count) const { return Dataset(ops::skip(node_, count)); }
Dataset Dataset::shard(std::int64_t num_shards, std::int64_t index) const {
  return Dataset(ops::shard(node_, num_shards, index));
}
Dataset Dataset::select(const at::Tensor& indices) const {
  TORCH_CHECK_VALUE(indices.defined(), "select: `indices` is an undefined tensor.");
  node_->checked_cardinality();  // as in `shuffle`
  return Dataset(ops::select(node_, indices));
}
Dataset Dataset::sample(const at::Tensor& weights, std::int64_t num_samples, DrawOptions options) const {
  TORCH_CHECK_VALUE(weights.defined(), "sample: `weights` is an undefined tensor.");
  node_->checked_cardinality();  // as in `shuffle`
  return Dataset(ops::sample(node_, weights, num_samples, options));
}
Dataset Dataset::enumerate(std::int64_t start) const { return Dataset(ops::enumerate(node_, start)); }
Dataset Dataset::concatenate(const Dataset& other) const {
  return Dataset(ops::concatenate(node_, other.node_));
}
Dataset Dataset::cache(CacheOptions options) const {
  return Dataset(options.shared ? ops::shared_cache(node_) : ops::cache(node_));
}
Dataset Dataset::prefetch(std::int64_t buffer_size) const {
  return Dataset(ops::prefetch(node_, buffer_size));
}
Dataset Dataset::map(FunctionPtr function, MapOptions options) const {
  return Dataset(ops::map(node_, std::move(function), std::move(options)));
}
Dataset Dataset::map(std::function<Element(Element)> function, MapOptions options) const {
  return map(make_function(given(std::move(function), "map", "function")), std::move(options));
}
Dataset Dataset::filter(FunctionPtr predicate) const {
  return Dataset(ops::filter(node_, std::move(predicate)));
}
Dataset Dataset::filter(std::function<bool(const Element&)> predicate) const {
  return filter(
      make_function([predicate = given(std::move(predicate), "filter", "predicate")](const Element& element) {
        return Element(at::scalar_tensor(predicate(element), at::kBool));
      }));
}
Dataset Dataset::flat_map(FunctionPtr function) const {
  return Dataset(ops::flat_map(node_, std::move(function)));
}
Dataset Dataset::flat_map(std::function<Dataset(Element)> function) const {
  return flat_map(dataset_function(given(std::move(function), "flat_map", "function")));
}
Dataset Dataset::interleave(FunctionPtr function, InterleaveOptions options) const {
  return Dataset(ops::interleave(node_, std::move(function), options));
}
Dataset Dataset::interleave(std::function<Dataset(Element)> function, InterleaveOptions options) const {
  return interleave(dataset_function(given(std::move(function), "interleave", "function")), options);
}
Dataset Dataset::window(std::int64_t size) const { return Dataset(ops::window(node_, size)); }
Dataset Dataset::padded_batch(std::int64_t batch_size, PaddedBatchOptions options) const {
  return Dataset(ops::padded_batch(node_, batch_size, std::move(options)));
}
Dataset Dataset::bucket_by_length(FunctionPtr length, BucketOptions options) const {
  return Dataset(ops::bucket_by_length(node_, std::move(length), std::move(options)));
}
Dataset Dataset::bucket_by_length(std::function<std::int64_t(const Element&)> length,
                                  BucketOptions options) const {
  return bucket_by_length(make_function([length = given(std::move(length), "bucket_by_length", "length")](
                                            const Element& element) {
                            return Element(at::scalar_tensor(length(element), at::kLong));
                          }),
                          std::move(options));
}
Dataset Dataset::batch_by_cost(RowCost cost, double budget, CostBatchOptions options) const {
  return Dataset(ops::batch_by_cost(node_, std::move(cost), budget, std::move(options)));
}
Dataset Dataset::unique() const { return Dataset(ops::unique(node_)); }
Dataset Dataset::assert_cardinality(std::int64_t cardinality) const {
  return Dataset(ops::assert_cardinality(node_, cardinality));
}
Dataset Dataset::normalize_images(std::vector<double> mean, std::vector<double> std,
                                  ImageOptions options) const {
  return Dataset(ops::normalize_images(node_, std::move(mean), std::move(std), options));
}
Dataset Dataset::apply(const std::function<Dataset(const Dataset&)>& function) const {
  TORCH_CHECK_VALUE(function, "apply: `function` must not be empty.");
  return function(*this);
}
Dataset Dataset::with_options(Options options) const { return Dataset(ops::with_options(node_, options)); }

Dataset Dataset::with_other_functions(const OtherFunction& other) const {
  return Dataset(torch_distinput::with_other_functions(node_, other));
}
bool Dataset::unseeded() const { return torch_distinput::unseeded(*node_); }

std::int64_t Dataset::cardinality() const {
  // Rows that fail are left out, and only reading them shows which.
  if (node_->options().skip && may_fail(*node_)) return kUnknownCardinality;
  return node_->checked_cardinality();
}

ElementSpec Dataset::element_spec() const {
  const SpecPtr spec = node_->spec();
  TORCH_CHECK_VALUE(spec != nullptr, "element_spec: the spec of `", node_->describe(),
                    "` cannot be known, because there is no element to look at.");
  return *spec;
}

DatasetIterator Dataset::iterate(IterateOptions options) const {
  TORCH_CHECK_VALUE(!options.epoch || *options.epoch >= 0, "iterate: `epoch` must be at least 0, but is ",
                    options.epoch.value_or(0), ".");
  TORCH_CHECK_VALUE(options.with_rows,
                    "iterate: steps without rows (`with_rows`) are those of a distributed "
                    "dataset.");
  const std::optional<std::int64_t> set_seed = node_->options().seed;
  EpochRun run;
  run.node = node_;
  run.epoch = options.epoch ? *options.epoch : epochs_->begin();
  run.seed = options.seed ? *options.seed
             : set_seed   ? static_cast<std::uint64_t>(*set_seed)
                          : epochs_->seed();
  run.stream_only = options.stream_only;
  run.pin_memory = options.pin_memory;
  // An iterator of an epoch that the caller chose does not take part in the count.
  auto epochs = options.epoch ? nullptr : epochs_;
  return DatasetIterator(std::make_unique<DatasetIterator::Impl>(std::move(run), std::move(epochs)));
}

RowLedger Dataset::ledger(const LedgerEpoch& epoch) const {
  const std::optional<std::int64_t> set = node_->options().seed;
  return ledger_of(node_, epoch, set ? static_cast<std::uint64_t>(*set) : epochs_->seed());
}

void Dataset::set_epoch(std::int64_t epoch) const {
  TORCH_CHECK_VALUE(epoch >= 0, "set_epoch: `epoch` must be at least 0, but is ", epoch, ".");
  epochs_->pin(epoch);
}

Dataset::const_iterator::const_iterator(std::shared_ptr<DatasetIterator> iterator)
    : iterator_(std::move(iterator)), current_(iterator_->next()) {}

Dataset::const_iterator& Dataset::const_iterator::operator++() {
  current_ = iterator_->next();
  return *this;
}

Dataset::const_iterator Dataset::begin() const {
  return const_iterator(std::make_shared<DatasetIterator>(iterate()));
}

}  // namespace torch_distinput
