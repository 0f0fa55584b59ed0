// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/block_source.h"

#include <memory>
#include <utility>

#include <c10/util/Exception.h>

#include "sources/columns/arrow_owned.h"
#include "sources/columns/import_block.h"
#include "sources/columns/rows_together.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

/// The only array of `stream`, which has `rows` rows.
ArrowBatch only_batch(ArrowArrayStream* stream, const RowType& type, const BlockSource& source,
                      std::int64_t rows) {
  ArrowOwned<ArrowSchema> schema;
  read_schema(stream, schema, source.name);
  check_same_schema(*schema, type.table, source.name);
  ArrowBatch batch = read_batch(stream, source.name);
  const std::int64_t found = batch == nullptr ? 0 : (*batch)->length;
  if (found != rows || (batch != nullptr && read_batch(stream, source.name) != nullptr)) {
    throw InvalidArgumentError(c10::str(source.name, ": block ", source.block, " has not the ", rows,
                                        " rows that were counted; the file has changed, or its counts lie."));
  }
  return batch;
}

ArrowBatch whole_batch(const RowType& type, const BlockSource& source) {
  ArrowOwned<ArrowArrayStream> stream;
  source.read(stream.get());
  return only_batch(stream.get(), type, source, source.rows);
}

RowBlock all_rows(const RowType& type, const BlockSource& source) {
  return import_block(type.table, whole_batch(type, source), {source.name, source.first_row});
}

}  // namespace

BlockPtr whole_block(const RowType& type, const BlockSource& source) {
  return std::make_shared<const RowBlock>(all_rows(type, source));
}

BlockPtr scattered_block(const RowType& type, const BlockSource& source) {
  return std::make_shared<const RowBlock>(with_rows_together(all_rows(type, source)));
}

BlockParts parts_of_block(const RowType& type, BlockSource source, std::int64_t begin) {
  const std::int64_t rows = source.rows;
  if (source.read_rows == nullptr) {
    ArrowBatch batch = whole_batch(type, source);
    BlockPlace place{std::move(source.name), source.first_row};
    return {begin, rows,
            [&type, batch = std::move(batch), place = std::move(place)](std::int64_t from, std::int64_t to) {
              return std::make_shared<const RowBlock>(import_rows(type.table, batch, place, from, to));
            }};
  }
  return {begin, rows, [&type, source = std::move(source)](std::int64_t from, std::int64_t to) {
            ArrowOwned<ArrowArrayStream> stream;
            source.read_rows(from, to, stream.get());
            const ArrowBatch batch = only_batch(stream.get(), type, source, to - from);
            return std::make_shared<const RowBlock>(
                import_block(type.table, batch, {source.name, source.first_row + from}));
          }};
}

}  // namespace torch_distinput
