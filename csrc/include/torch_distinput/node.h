// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/element.h"
#include "torch_distinput/options.h"
#include "torch_distinput/plan.h"
#include "torch_distinput/spec.h"
#include "torch_distinput/state.h"

namespace torch_distinput {

inline constexpr std::int64_t kInfiniteCardinality = -1;
inline constexpr std::int64_t kUnknownCardinality = -2;

/// What an iterator runs on (threads, buffers, counters); private to the library.
struct ExecutionContext;

class UserCode;
/// What devices may do in the place of the pipeline's end; private to the library.
struct LastNormalization;
using LastNormalizationPtr = std::shared_ptr<const LastNormalization>;

/// What a node needs to open a plan or an iterator. A value; ops derive the context
/// of their inputs from their own.
struct TDI_API IterContext {
  std::shared_ptr<ExecutionContext> execution;
  std::uint64_t seed = 0;       ///< base seed, for ops without a seed of their own
  std::uint64_t epoch_key = 0;  ///< epoch and rounds of `repeat`, folded
  std::uint64_t path = 0;       ///< place in the graph, tells unseeded ops apart
  std::uint64_t stream = 0;     ///< tells rows of pipelines apart that read different data side by side
  bool stream_only = false;     ///< never use plans (tests of the sequential path)
  bool is_part = false;         ///< of one of the datasets that a function makes, whose end is not the data's

  /// The context of input `index`.
  IterContext input(std::size_t index) const;
  /// The context of round `round` of a repeat.
  IterContext round(std::int64_t round) const;
  /// The key of a random op: from its own seed, else from the base seed and its
  /// place; from the epoch too unless `every_epoch` is false.
  std::uint64_t key(std::optional<std::int64_t> own_seed, bool every_epoch) const;
  /// The key that an op's rows have for `random`, with their number.
  std::uint64_t rows_key() const;
};

/// An iterator over elements. Not thread-safe: one thread at a time. After an
/// exception from `next` an iterator's position is unspecified until `load`.
class TDI_API Iterator {
 public:
  virtual ~Iterator();
  /// The next element, or nullopt at the end, then and at every later call.
  virtual std::optional<Element> next() = 0;
  /// The position after the element last returned: plain values, no data.
  virtual State save() const = 0;
  /// Goes to a saved position; assigns every field. Throws c10::ValueError for a
  /// state that is not of this kind of iterator.
  virtual void load(const State& state) = 0;
};
using IteratorPtr = std::unique_ptr<Iterator>;

/// What sharding and inference ask of a node instead of its class.
struct Traits {
  bool reader = false;          ///< reads records from files
  bool file_names = false;      ///< yields names of files
  bool unshardable = false;     ///< a source that cannot be sharded by file
  bool pass_through = false;    ///< file sharding may look through it to input 0
  bool fallible = false;        ///< a row may fail (runs callables, reads files)
  bool runs_user_code = false;  ///< runs a user function or source of the user's
  /// Its elements are batches of rows (true) or single rows (false); unset: as
  /// those of input 0, and single rows without one.
  std::optional<bool> batches = {};
  /// Hands on the rows of input 0, one for one and in order, however they are
  /// batched: a saved position then survives another batch size.
  bool row_wise = false;
  bool random = false;      ///< its order is drawn: a shard by file must stand before it
  bool shard_hint = false;  ///< the place where policy HINT shards its input
  /// Says how many elements there are, so that sharding its input by file leaves it out.
  bool asserts_size = false;
  bool counts = false;    ///< keeps elements by their number, of those that it gets
  bool unseeded = false;  ///< its order follows the base seed: a random op without a seed of its own
};

/// A node of a pipeline: an immutable description. Any thread may use it.
class TDI_API Node : public std::enable_shared_from_this<Node> {
 public:
  virtual ~Node();

  /// The op's name as the user calls it: `batch`.
  virtual std::string_view name() const = 0;
  /// The call with its arguments: `batch(batch_size=4)`.
  virtual std::string describe() const = 0;
  /// What must be equal for a saved position to make sense, usually
  /// `describe()`; "" for ops that change nothing but speed.
  virtual std::string identity() const { return describe(); }

  virtual std::vector<NodePtr> inputs() const = 0;
  /// The same op over other inputs. REQUIRES: as many as `inputs()`.
  virtual NodePtr with_inputs(std::vector<NodePtr> inputs) const = 0;

  /// The type of the elements; null when it cannot be known. May run a user's
  /// function on the first element, once.
  virtual SpecPtr spec() const = 0;
  /// Elements an epoch, `kInfiniteCardinality` or `kUnknownCardinality`; a file whose
  /// records cannot be counted makes it unknown, as it is an error only where rows that
  /// fail are not skipped.
  virtual std::int64_t cardinality() const = 0;
  /// Throws what users get for a file that made a `cardinality` unknown, unless its
  /// records can be counted by now.
  virtual void check_sources() const;
  /// `cardinality`, after `check_sources` where rows that fail are not skipped.
  std::int64_t checked_cardinality() const;
  /// Rows of each element (but a last short one) as batch-size inference sees it:
  /// set by batching ops, passed on by ops that keep batches whole, else nullopt.
  virtual std::optional<std::int64_t> batch_size() const { return std::nullopt; }
  virtual Traits traits() const { return {}; }
  /// What the op itself calls that a user gave it.
  virtual std::vector<const UserCode*> user_code() const { return {}; }
  /// Whether its function makes datasets that read files of what its input yields:
  /// sharding by file then shards the input. May run the function once, on the first
  /// element; throws what that throws.
  virtual bool yields_readers() const { return false; }
  /// Options set on this node and its inputs, later ones winning.
  virtual Options options() const;

  /// The `normalize_images` after which nothing of this pipeline looks into elements any more. Null where
  /// there is none, where its input is not batches, or where the channels are known only when the data is
  /// seen.
  virtual LastNormalizationPtr last_normalization() const;

  /// Random access to this epoch's elements, or null: then only `iterate` works.
  virtual PlanPtr plan(const IterContext& context) const;
  /// An iterator that works element by element: the sequential path. Where there is a
  /// plan too, both yield identical elements.
  virtual IteratorPtr iterate(const IterContext& context) const = 0;
};

}  // namespace torch_distinput
