// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <utility>

#include "runtime/buffer_pool.h"
#include "sources/columns/arrow_owned.h"
#include "sources/columns/block_rows.h"

namespace torch_distinput {
namespace {

constexpr const char* kArrowRowsName = "from_arrow";

/// Holds one array at a time.
class ArrowRows final : public Generator {
 public:
  ArrowRows(ArrowArrayStream* stream, const ColumnOptions& options) {
    take_stream(stream, stream_);
    ArrowOwned<ArrowSchema> schema;
    read_schema(stream_.get(), schema, kArrowRowsName);
    type_ = row_type(*schema, options, kArrowRowsName);
  }

  std::optional<Element> next() override {
    while (block_ == nullptr || row_ >= block_->rows) {
      if (block_ != nullptr) first_row_ += block_->rows;
      const ArrowBatch batch = read_batch(stream_.get(), kArrowRowsName);
      if (batch == nullptr) return std::nullopt;
      block_ =
          std::make_shared<const RowBlock>(import_block(type_->table, batch, {kArrowRowsName, first_row_}));
      row_ = 0;
    }
    const BlockRun run{block_, {&row_, 1}, 0};
    std::optional<Element> element = std::move(elements_of_runs(*type_, {&run, 1}, *host_pool()).front());
    ++row_;
    return element;
  }

 private:
  ArrowOwned<ArrowArrayStream> stream_;
  std::shared_ptr<const RowType> type_;
  BlockPtr block_;
  std::int64_t row_ = 0;        ///< the next row of `block_`
  std::int64_t first_row_ = 0;  ///< the rows before `block_`
};

}  // namespace

ElementSpec arrow_spec(const ArrowSchema& schema, const ColumnOptions& options) {
  return row_type(schema, options, kArrowRowsName)->spec;
}

std::unique_ptr<Generator> arrow_rows(ArrowArrayStream* stream, const ColumnOptions& options) {
  return std::make_unique<ArrowRows>(stream, options);
}

}  // namespace torch_distinput
