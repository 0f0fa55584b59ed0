// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <exception>
#include <iomanip>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/interrupt_watch.h"
#include "execution/batch_reader.h"
#include "execution/draws_order.h"
#include "execution/epoch_cache.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/tells_drawn.h"
#include "execution/tells_facts.h"
#include "execution/unary_node.h"
#include "ops/ops.h"
#include "ops/tokens/carried_leaves.h"
#include "ops/tokens/pack_index_cache.h"
#include "ops/tokens/pack_iterators.h"
#include "ops/tokens/pack_plan.h"

namespace torch_distinput::ops {
namespace {

/// `cu_seqlens` has int32 entries, and rows are made in memory.
constexpr std::int64_t kMaxPackedLength = std::int64_t{1} << 30;

void check_at_least_one(const char* option, std::int64_t value, std::int64_t most) {
  TORCH_CHECK_VALUE(value >= 1 && value <= most, kPackName, ": `", option,
                    "` must be at least 1 and at most ", most, ", but is ", value, ".");
}

void check_keys(const PackOptions& options) {
  std::set<std::string> names(kPackedNames.begin(), kPackedNames.end());
  for (const std::string& key : options.keys) {
    TORCH_CHECK_VALUE(
        names.insert(key).second && names.insert(key + kBoundsSuffix).second && key != options.key, kPackName,
        ": `keys` must name other entries than those of rows and of `key`, each once, ", "but has '", key,
        "'.");
  }
  TORCH_CHECK_VALUE(
      options.keys.empty() || options.strategy == PackStrategy::kBestFit, kPackName,
      ": `keys` needs the strategy \"best_fit\", because the other one cuts documents, and what "
      "travels with them cannot be cut.");
}

/// Whether each epoch has the same elements, in any order. REQUIRES: the node's cardinality is known, so that
/// its files are the same in each epoch.
bool same_elements_each_epoch(const Node& node) {
  if (node.traits().sharding.reader || !draws_order(node)) return true;
  const std::vector<NodePtr> inputs = node.inputs();
  const Traits traits = node.traits();
  return (traits.order.permutes || traits.rows.row_wise) &&
         std::all_of(inputs.begin(), inputs.end(),
                     [](const NodePtr& input) { return same_elements_each_epoch(*input); });
}

/// Rows that documents are joined to, each document in order of the input or within windows of it. Random
/// access if the input has it and knows the lengths of documents. The cardinality is known where it is the
/// same in each epoch; without a batch size; no state holds tokens. Sharded by file, each rank packs its own
/// documents.
class PackNode final : public UnaryNode, public TellsFacts, public TellsDrawn {
 public:
  PackNode(NodePtr input, PackArguments packing)
      : UnaryNode(std::move(input)), packing_(std::move(packing)) {}

  std::string_view name() const override { return kPackName; }
  /// A position in sequence is before the documents of a row or window that are in rows already.
  bool tells_drawn(bool runs_plan) const override { return runs_plan; }
  std::string describe() const override {
    const PackOptions& options = packing_.options;
    std::ostringstream out;
    out << kPackName << "(sequence_length=" << packing_.length;
    if (options.key) out << ", key=" << *options.key;
    if (options.strategy == PackStrategy::kBestFit) out << ", strategy=best_fit, window=" << options.window;
    if (options.pad_id != 0) out << ", pad_id=" << options.pad_id;
    if (options.max_documents) out << ", max_documents=" << *options.max_documents;
    if (options.pad_to_multiple_of != 1) out << ", pad_to_multiple_of=" << options.pad_to_multiple_of;
    for (const std::string& key : options.keys)
      out << (&key == &options.keys.front() ? ", keys=" : "+") << key;
    out << ')';
    return out.str();
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<PackNode>(std::move(inputs.at(0)), packing_);
  }

  SpecPtr spec() const override {
    const SpecPtr documents = input().spec();
    if (documents == nullptr) return nullptr;
    const std::size_t leaf = document_leaf(*documents, packing_.options);
    const RowLayout row = packing_.layout(std::get<TensorSpec>(documents->leaves[leaf]).dtype);
    ElementSpec spec{row.structure, {}};
    for (const LeafLayout& own : row.leaves) spec.leaves.emplace_back(TensorSpec{own.shape, own.dtype, {}});
    CarriedLeaves::append_spec(packing_, *documents, spec);
    return std::make_shared<const ElementSpec>(std::move(spec));
  }
  std::int64_t cardinality() const override {
    const std::int64_t documents = input().cardinality();
    if (documents <= 0 && documents != kUnknownCardinality) return documents;
    if (documents == kUnknownCardinality || !same_number_each_epoch()) return kUnknownCardinality;
    const InterruptWatch watch;
    try {
      const PlanPtr rows =
          plan(epoch_context(make_execution_context(options()), 0, 0, /*stream_only=*/false));
      return rows == nullptr ? kUnknownCardinality : rows->size();
    } catch (const std::exception&) {
      if (watch.interrupt()) throw;
      return kUnknownCardinality;
    }
  }
  std::optional<std::int64_t> batch_size() const override { return std::nullopt; }
  Traits traits() const override { return {.sharding = {.pass_through = true}, .rows = {.batches = false}}; }

  PlanPtr plan(const IterContext& context) const override {
    std::optional<Planned> rows = planned(context);
    if (!rows) return nullptr;
    return pack_plan(std::move(rows->documents), std::move(rows->index), packing_, context.execution->pool);
  }

  std::string facts(const IterContext& context) const override {
    const std::optional<Planned> rows = planned(context);
    if (!rows || rows->index->size() == kEndless || rows->index->size() == 0) return "";
    const PackFill fill = rows->index->fill();
    const double places = static_cast<double>(rows->index->size()) * static_cast<double>(packing_.length);
    std::ostringstream out;
    out << rows->index->size() << " rows, " << std::fixed << std::setprecision(1)
        << 100 * static_cast<double>(fill.tokens) / places << " % filled, " << fill.documents_cut << " of "
        << rows->documents.plan->size() << " documents cut";
    return out.str();
  }

  IteratorPtr iterate(const IterContext& context) const override {
    IteratorPtr input = open_iterator(input_ptr(), context.input(0));
    return packing_.options.strategy == PackStrategy::kBestFit
               ? best_fit_pack_iterator(std::move(input), packing_, context.execution->pool)
               : greedy_pack_iterator(std::move(input), packing_, context.execution->pool);
  }

 private:
  struct Planned {
    Documents documents;
    PackIndexPtr index;
  };

  /// Which documents make which rows, where that can be known before they are read.
  std::optional<Planned> planned(const IterContext& context) const {
    PlanPtr documents = input().plan(context.input(0));
    const SpecPtr spec = documents == nullptr ? nullptr : input().spec();
    if (spec == nullptr) return std::nullopt;
    const std::size_t leaf = document_leaf(*spec, packing_.options);
    if (!documents->knows_lengths(leaf)) return std::nullopt;
    const DocumentLengths lengths(documents, leaf, context.execution->executor);
    const bool best_fit = packing_.options.strategy == PackStrategy::kBestFit;
    auto order = draws_order(input()) ? order_key(context) : std::vector<std::int64_t>{};
    PackIndexPtr index = indexes_.get(std::move(order), lengths, [&] {
      return best_fit ? best_fit_index(lengths, packing_) : greedy_index(lengths, packing_);
    });
    const c10::ScalarType dtype = std::get<TensorSpec>(spec->leaves[leaf]).dtype;
    return Planned{{std::move(documents), leaf, dtype}, std::move(index)};
  }

  /// Whether each epoch has as many rows. The order of documents decides where rows are not filled to the
  /// end.
  bool same_number_each_epoch() const {
    const PackOptions& options = packing_.options;
    const bool fills_rows = options.strategy == PackStrategy::kGreedy && !options.max_documents;
    return fills_rows ? same_elements_each_epoch(input()) : !draws_order(input());
  }

  PackArguments packing_;
  mutable PackIndexCache indexes_;
};

}  // namespace

NodePtr pack(NodePtr input, std::int64_t sequence_length, PackOptions options) {
  check_at_least_one("sequence_length", sequence_length, kMaxPackedLength);
  check_at_least_one("window", options.window, kMaxPackedLength);
  if (options.max_documents) check_at_least_one("max_documents", *options.max_documents, kMaxPackedLength);
  check_at_least_one("pad_to_multiple_of", options.pad_to_multiple_of, kMaxPackedLength);
  TORCH_CHECK_VALUE(sequence_length % options.pad_to_multiple_of == 0, kPackName,
                    ": `sequence_length` must be a multiple of `pad_to_multiple_of`, ",
                    options.pad_to_multiple_of, ", but is ", sequence_length, ".");
  check_keys(options);
  auto rows =
      std::make_shared<PackNode>(std::move(input), PackArguments{sequence_length, std::move(options)});
  quiet_spec(*rows);
  return rows;
}

}  // namespace torch_distinput::ops
