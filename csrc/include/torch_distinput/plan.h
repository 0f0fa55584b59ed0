// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// `Plan::size` of a dataset that never ends.
inline constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();
/// `Plan::rows` where only the data can tell.
inline constexpr std::int64_t kUnknownRows = -1;

/// One dense leaf of one row.
struct LeafLayout {
  c10::ScalarType dtype;
  Dims shape;          ///< every dim known
  std::int64_t bytes;  ///< of one row, contiguous
};

/// Rows whose leaves are all dense and of static shape: such rows can be written straight into a batch.
struct RowLayout {
  StructurePtr structure;
  std::vector<LeafLayout> leaves;  ///< one for each leaf of `structure`
};

/// Where the rows of one leaf go: row i is at `data + i * row_bytes`, in host memory of the caller.
struct RowSink {
  char* data;
  std::int64_t row_bytes;
};

/// The rows of one batch, and where they go.
struct BatchRows {
  std::size_t count;
  std::span<const RowSink> sinks;  ///< one for each leaf
};

/// Rows [begin, end) along dim 0 of the element at position `element`.
struct Segment {
  std::int64_t element;
  std::int64_t begin;
  std::int64_t end;
  bool operator==(const Segment&) const = default;
};

/// Where a row of the sources below a plan lies.
struct SourceRow {
  std::int64_t source;  ///< the source's number, in the order in which the rows of sources are numbered
  std::string file;     ///< as the source was given it; "" for one that reads no files
  std::int64_t record;  ///< the row's number in the file, or in a source without files
  bool operator==(const SourceRow&) const = default;
};

/// What must be known of a plan to run it.
struct PlanTraits {
  bool runs_user_code = false;          ///< runs callables that may block (Python): never on the arena
  bool blocks = false;                  ///< waits for files: on threads of its own, never on the arena
  bool remote = false;                  ///< bytes come over a network: `will_read` is worth calling
  std::int64_t num_parallel_calls = 0;  ///< parallel calls that `map` asks for; 0: it does not ask
  std::int64_t read_ahead = -1;  ///< elements to read ahead that `prefetch` asks for; -1: it does not ask
  std::int64_t block = 1;        ///< consecutive elements that should be made with one call
  std::int64_t together = 1;     ///< the same where they are small: they are found faster together
};

/// Random access to the elements of a node for one epoch: index arithmetic and a chain of fetches over whole
/// arrays of positions, one virtual call for each op and batch. Immutable after construction; all methods are
/// safe from any thread. Positions are in [0, size()). Methods throw what the op throws; the same call may
/// then be made again.
class TDI_API Plan {
 public:
  virtual ~Plan();

  /// Number of elements, or `kEndless`.
  virtual std::int64_t size() const = 0;
  /// How the plan must and should be run.
  virtual PlanTraits traits() const { return {}; }

  /// Bytes that an element has at least, a shorter last batch aside; 0 where nothing is known before one is
  /// made. The default: those of `layout`.
  virtual std::int64_t least_bytes() const;

  /// Where the element at `position` comes from (a file), for messages; "" where that is not known.
  virtual std::string origin(std::int64_t position) const;

  /// The plans whose elements it reads, in the order in which their source rows are numbered; empty for a
  /// source. They live as long as this plan. Null: an input without random access, of which it reads none.
  /// The default: empty.
  virtual std::vector<const Plan*> inputs() const;
  /// The number of rows of the sources below: all that `source_rows` appends are in [0, num_source_rows()).
  /// The default: that of a source, `size()`.
  virtual std::int64_t num_source_rows() const;
  /// Appends to `rows` the numbers of the source rows that the elements at `positions` (scratch, as in
  /// `gather`) are made of, element by element, without reading data. A source numbers its rows in its own
  /// order; the rows of an op's second input are numbered after all those of its first, and so on. The
  /// default: that of a source, whose rows are its elements.
  virtual void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const;
  /// The same for the rows that `take_rows(segments)` takes. The default: of the whole elements that
  /// `segments` name rows of, for elements whose rows are not told apart.
  virtual void source_rows_of(std::span<const Segment> segments, std::vector<std::int64_t>& rows) const;
  /// Where source row `row`, which is in [0, num_source_rows()), lies, without reading data. The default asks
  /// the input that has it; a source that reads files overrides it.
  virtual SourceRow source_row(std::int64_t row) const;

  /// The layout of an element where elements have a static dense one, else null. Lives as long as the plan.
  virtual const RowLayout* layout() const { return nullptr; }
  /// Writes element `positions[i]` to row `slots[i]` of each sink, or to row i when `slots` is empty.
  /// `positions` is scratch: its contents are unspecified afterwards. REQUIRES: `layout() != nullptr`, one
  /// sink for each leaf.
  virtual void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
                      std::span<const RowSink> sinks) const;
  /// As one `gather` for each of `batches`, whose rows follow each other in `positions`. The default; where
  /// rows are found faster together, all are found first.
  virtual void gather_batches(std::span<std::int64_t> positions, std::span<const BatchRows> batches) const;
  /// The elements at `positions` (scratch, as in `gather`), in that order.
  virtual std::vector<Element> fetch(std::span<std::int64_t> positions) const = 0;

  /// Whether `fetch_batch` works: elements have no layout, but many of them can be made as one column.
  virtual bool fetches_batches() const { return false; }
  /// The elements at `positions` (scratch, as in `gather`, and not empty) as the rows of one element.
  /// REQUIRES: `fetches_batches()`.
  virtual Element fetch_batch(std::span<std::int64_t> positions) const;
  /// As one `fetch_batch` for each of `counts`: batches of so many elements (> 0), which follow each other in
  /// `positions`. The default; where elements are found faster together, all are found first.
  virtual std::vector<Element> fetch_batches(std::span<std::int64_t> positions,
                                             std::span<const std::size_t> counts) const;

  /// Rows along dim 0 of the element at `position`, the same for all leaves; `kUnknownRows` where only the
  /// data can tell. Known for all positions or for none.
  virtual std::int64_t rows(std::int64_t position) const;
  /// Sum of `rows(e)` over all e < `position`, which is in [0, size()]. The default adds them up in
  /// O(position).
  virtual std::int64_t rows_before(std::int64_t position) const;
  /// The rows that `segments` name, in order, as one element. The default fetches whole elements, cuts and
  /// joins them; a batch gathers the named rows only.
  virtual Element take_rows(std::span<const Segment> segments) const;

  /// Whether `lengths(leaf, ...)` works: the rows along dim 0 of leaf `leaf` are known of each element
  /// without reading it. The default: those of `layout`.
  virtual bool knows_lengths(std::size_t leaf) const;
  /// Replaces `positions` by the rows along dim 0 that leaf `leaf` of their elements has. REQUIRES:
  /// `knows_lengths(leaf)`.
  virtual void lengths(std::size_t leaf, std::span<std::int64_t> positions) const;
  /// Copies the rows that `pieces` name of leaf `leaf`, which has one dim and is of type `dtype`, piece i to
  /// `to[i]`. The default fetches whole elements; files of tokens read the named rows only. Throws
  /// c10::TypeError for another leaf, and c10::ValueError for one of another length than `lengths` said.
  /// REQUIRES: `knows_lengths(leaf)`.
  virtual void gather_pieces(std::size_t leaf, c10::ScalarType dtype, std::span<const Segment> pieces,
                             std::span<char* const> to) const;

  /// What the first `position` elements, which is in [0, size()], took from each dataset of the nearest
  /// `sample_from_datasets`; empty without that op, and after one that shuffles everything. The default:
  /// empty.
  virtual std::vector<std::int64_t> sampled(std::int64_t position) const;

  /// The blocks of elements that are best read together: the position at which each begins, ascending from 0,
  /// and `size()` at the end. Row groups and records of files have their own; the default: as many elements
  /// as have about 8 MiB, or 1,024 where their bytes are not known. REQUIRES: the size is not `kEndless`.
  virtual std::vector<std::int64_t> block_starts() const;
  /// About `blocks` blocks will be in use at a time: a source that reads whole blocks keeps as many. The
  /// default tells its inputs.
  virtual void keep_blocks(std::int64_t blocks) const;

  /// The elements at `positions` (scratch, as in `gather`) will be fetched soon: a source over a network asks
  /// for their bytes now. Does not wait; a hint: calls may be left out, be repeated and come in any order.
  /// The default does nothing.
  virtual void will_read(std::span<std::int64_t> positions) const;
  /// The same for the rows that `take_rows(segments)` will take. The default announces whole elements.
  virtual void will_take(std::span<const Segment> segments) const;
};
using PlanPtr = std::shared_ptr<const Plan>;

}  // namespace torch_distinput
