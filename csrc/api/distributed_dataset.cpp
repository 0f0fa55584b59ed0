// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/distributed_dataset.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "api/distributed_iterator.h"
#include "api/row_ledger.h"
#include "distribute/sharding/deal_streams.h"
#include "distribute/steps/open_step_source.h"
#include "execution/any_op.h"
#include "execution/open.h"

namespace torch_distinput {
namespace {

/// Whether every batch that has rows is one step, however many rows it has.
bool steps_are_batches(const Distribution& distribution) {
  const Tail tail = distribution.input.tail;
  const bool keeps_all = tail == Tail::kZeroRows || tail == Tail::kPadded || tail == Tail::kRepeat;
  return keeps_all && !distribution.assignment.splitter->round_rows();
}

/// The steps of all of `readers`, of which each has the steps that `steps_of` says. `stops_first`: they end
/// with the first one that ends. nullopt where one of them is not known.
template <class Reader, class StepsOf>
std::optional<std::int64_t> steps_together(const std::vector<Reader>& readers, bool stops_first,
                                           const StepsOf& steps_of) {
  std::optional<std::int64_t> steps;
  for (const Reader& reader : readers) {
    const std::optional<std::int64_t> own = steps_of(reader);
    if (!own) return std::nullopt;
    steps = stops_first ? std::min(steps.value_or(*own), *own) : std::max(steps.value_or(*own), *own);
  }
  return steps;
}

}  // namespace

std::uint64_t DistributedDataset::Impl::seed() const {
  const auto& set = distribution->options.seed;
  return set ? static_cast<std::uint64_t>(*set) : epochs->seed();
}

IterContext DistributedDataset::Impl::next_context(const Distribution& of, bool stream_only) const {
  return epoch_context(make_execution_context(of.options), seed(), epochs->peek(), stream_only);
}

std::shared_ptr<PlanRows> DistributedDataset::Impl::next_rows(const Distribution& of) const {
  return plan_rows(of, next_context(of, /*stream_only=*/false));
}

std::optional<std::int64_t> DistributedDataset::Impl::num_steps(const Distribution& of,
                                                                bool only_complete) const {
  if (!of.pipelines.empty()) return pipeline_steps(of, only_complete);
  if (of.assignment.streams && of.assignment.replicas.ranks > 1) return steps_of_streams(of, only_complete);
  if (const auto rows = next_rows(of)) return count_steps(of.rules(), *rows, only_complete);
  if (of.cardinality < 0 || !steps_are_batches(of)) return std::nullopt;
  const std::int64_t width = of.assignment.width;
  const std::int64_t parts = of.cardinality * of.assignment.splitter->parts();
  return only_complete && of.input.tail == Tail::kZeroRows ? parts / width : (parts + width - 1) / width;
}

std::optional<std::int64_t> DistributedDataset::Impl::pipeline_steps(const Distribution& of,
                                                                     bool only_complete) const {
  const bool stops_first = only_complete || of.input.tail == Tail::kUntilFirst;
  return steps_together(of.pipelines, stops_first, [this](const DistributionPtr& pipeline) {
    return num_steps(*pipeline, /*only_complete=*/false);
  });
}

/// Of all ranks: what each reads follows from the pipeline, so that every rank knows it.
std::optional<std::int64_t> DistributedDataset::Impl::steps_of_streams(const Distribution& of,
                                                                       bool only_complete) const {
  if (of.skips() && may_fail(*of.node)) return std::nullopt;
  std::vector<std::int64_t> ranks(of.assignment.streams->shares.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return steps_together(ranks, only_complete, [&](std::int64_t rank) {
    Distribution own = of;
    StreamDeal& deal = *own.assignment.streams;
    deal.start = streams_of_rank(deal.cut->most(), deal.shares, rank);
    own.assignment.node = rank_pipeline(of.node, deal, rank);
    own.assignment.streams.reset();
    own.cardinality = own.assignment.node->cardinality();
    return num_steps(own, /*only_complete=*/false);
  });
}

DistributedDataset::DistributedDataset(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

DistributedIterator DistributedDataset::iterate(IterateOptions options) const {
  TORCH_CHECK_VALUE(!options.epoch || *options.epoch >= 0,
                    "DistributedDataset.iterate: `epoch` must be at least 0, but is ",
                    options.epoch.value_or(0), ".");
  const Distribution& distribution = *impl_->distribution;
  if (!options.with_rows)
    rows_without_reading(distribution, impl_->next_context(distribution, options.stream_only));
  EpochPosition at;
  at.epoch = options.epoch ? *options.epoch : impl_->epochs->begin();
  at.seed = options.seed ? *options.seed : impl_->seed();
  // An iterator of an epoch that the caller chose does not take part in the count.
  auto epochs = options.epoch ? nullptr : impl_->epochs;
  std::unique_ptr<PeerLink> link;
  if (impl_->handshakes)
    link = std::make_unique<PeerLink>(impl_->handshakes, distribution.input.peer_timeout,
                                      distribution.input.host_timeout);
  const bool seed_given = options.seed || distribution.options.seed;
  std::vector<Handshake::Fact> facts;
  for (auto& [name, value] : options.facts) facts.push_back({std::move(name), std::move(value)});
  return DistributedIterator(std::make_unique<DistributedIterator::Impl>(
      impl_->distribution, std::move(epochs), std::move(at), options.stream_only, options.with_rows,
      std::move(link), seed_given, std::move(facts)));
}

ElementSpec DistributedDataset::element_spec() const {
  const Distribution& distribution = *impl_->distribution;
  TORCH_CHECK_VALUE(
      distribution.spec != nullptr,
      "DistributedDataset.element_spec: the type of the elements cannot be known, because a function "
      "is mapped over a dataset without elements; declare it (`element_spec`).");
  ElementSpec spec = part_spec(*distribution.spec, distribution.assignment, distribution.input.split,
                               distribution.input.weights.has_value());
  // Any process may run out of rows; a merged step deals out the rows of elements of a function anew.
  const bool recut = distribution.assignment.from_function && distribution.input.tail == Tail::kMerge;
  if (recut || (impl_->handshakes && distribution.completes)) {
    for (LeafSpec& leaf : spec.leaves) leaf = replace_dim0(leaf, kUnknownDim);
  }
  return spec;
}

std::int64_t DistributedDataset::cardinality() const { return impl_->distribution->cardinality; }

std::optional<std::int64_t> DistributedDataset::num_steps() const {
  const Distribution& distribution = *impl_->distribution;
  // The longest stream of all ranks decides, and this rank knows only its own.
  if (impl_->handshakes && !distribution.one_stream() && !distribution.assignment.streams)
    return std::nullopt;
  return impl_->num_steps(distribution, !distribution.completes);
}

std::optional<std::int64_t> DistributedDataset::rows_to_merge() const {
  const Distribution& distribution = *impl_->distribution;
  if (distribution.input.tail != Tail::kZeroRows || !distribution.node || distribution.assignment.whole)
    return std::nullopt;
  // What other ranks read decides, too.
  if (impl_->handshakes && !distribution.one_stream()) return std::nullopt;
  try {
    const auto rows = impl_->next_rows(distribution);
    return rows ? torch_distinput::rows_to_merge(distribution.rules(), *rows) : std::nullopt;
  } catch (const std::exception&) {
    // It is raised where the data is read, on all ranks alike.
    return std::nullopt;
  }
}

std::vector<NodePtr> DistributedDataset::pipelines() const {
  const Distribution& distribution = *impl_->distribution;
  std::vector<NodePtr> nodes{distribution.assignment.node};
  if (distribution.node) nodes.push_back(distribution.node);
  for (const DistributionPtr& pipeline : distribution.pipelines) nodes.push_back(pipeline->assignment.node);
  return nodes;
}

RowLedger DistributedDataset::ledger(const LedgerEpoch& epoch) const {
  return ledger_of(*impl_->distribution, epoch, impl_->seed());
}

bool DistributedDataset::partial_batch_handling() const { return impl_->distribution->completes; }

void DistributedDataset::set_epoch(std::int64_t epoch) const {
  TORCH_CHECK_VALUE(epoch >= 0, "DistributedDataset.set_epoch: `epoch` must be at least 0, but is ", epoch,
                    ".");
  impl_->epochs->pin(epoch);
}

std::string DistributedDataset::sharding() const { return describe_sharding(*impl_->distribution); }

std::string DistributedDataset::explain() const {
  const Distribution& distribution = *impl_->distribution;
  std::string text = torch_distinput::explain(distribution, impl_->next_rows(distribution), num_steps());
  if (!distribution.node) return text;
  for (const std::string& fact : Dataset(distribution.node).network_facts()) text += fact + "\n";
  return text;
}

DistributedDataset::const_iterator::const_iterator(std::shared_ptr<DistributedIterator> iterator)
    : iterator_(std::move(iterator)), current_(iterator_->next()) {}

DistributedDataset::const_iterator& DistributedDataset::const_iterator::operator++() {
  current_ = iterator_->next();
  return *this;
}

DistributedDataset::const_iterator DistributedDataset::begin() const {
  return const_iterator(std::make_shared<DistributedIterator>(iterate()));
}

}  // namespace torch_distinput
