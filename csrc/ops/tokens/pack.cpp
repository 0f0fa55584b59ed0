// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <sstream>
#include <utility>

#include <c10/util/Exception.h>

#include "execution/batch_reader.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "ops/ops.h"
#include "ops/tokens/pack_iterators.h"

namespace torch_distinput::ops {
namespace {

/// `cu_seqlens` has int32 entries, and rows are made in memory.
constexpr std::int64_t kMaxPackedLength = std::int64_t{1} << 30;

void check_at_least_one(const char* option, std::int64_t value, std::int64_t most) {
  TORCH_CHECK_VALUE(value >= 1 && value <= most, kPackName, ": `", option,
                    "` must be at least 1 and at most ", most, ", but is ", value, ".");
}

/// Rows that documents are joined to, each document in order of the input or within windows of it.
/// Sequential, of unknown cardinality, without a batch size; no state holds tokens. Sharded by file, each
/// rank packs its own documents.
class PackNode final : public UnaryNode {
 public:
  PackNode(NodePtr input, PackArguments packing)
      : UnaryNode(std::move(input)), packing_(std::move(packing)) {}

  std::string_view name() const override { return kPackName; }
  std::string describe() const override {
    const PackOptions& options = packing_.options;
    std::ostringstream out;
    out << kPackName << "(sequence_length=" << packing_.length;
    if (options.key) out << ", key=" << *options.key;
    if (options.strategy == PackStrategy::kBestFit) out << ", strategy=best_fit, window=" << options.window;
    if (options.pad_id != 0) out << ", pad_id=" << options.pad_id;
    if (options.max_documents) out << ", max_documents=" << *options.max_documents;
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
    return std::make_shared<const ElementSpec>(
        packing_.spec(std::get<TensorSpec>(documents->leaves[leaf]).dtype));
  }
  std::int64_t cardinality() const override {
    const std::int64_t documents = input().cardinality();
    return documents == kInfiniteCardinality || documents == 0 ? documents : kUnknownCardinality;
  }
  std::optional<std::int64_t> batch_size() const override { return std::nullopt; }
  Traits traits() const override { return {.sharding = {.pass_through = true}, .rows = {.batches = false}}; }

  IteratorPtr iterate(const IterContext& context) const override {
    IteratorPtr input = open_iterator(input_ptr(), context.input(0));
    return packing_.options.strategy == PackStrategy::kBestFit
               ? best_fit_pack_iterator(std::move(input), packing_, context.execution->pool)
               : greedy_pack_iterator(std::move(input), packing_, context.execution->pool);
  }

 private:
  PackArguments packing_;
};

}  // namespace

NodePtr pack(NodePtr input, std::int64_t sequence_length, PackOptions options) {
  check_at_least_one("sequence_length", sequence_length, kMaxPackedLength);
  check_at_least_one("window", options.window, kMaxPackedLength);
  if (options.max_documents) check_at_least_one("max_documents", *options.max_documents, kMaxPackedLength);
  if (const SpecPtr documents = quiet_spec(*input)) document_leaf(*documents, options);
  return std::make_shared<PackNode>(std::move(input), PackArguments{sequence_length, std::move(options)});
}

}  // namespace torch_distinput::ops
