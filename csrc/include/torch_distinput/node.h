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

/// Cardinalities that are not a number of elements (values as in tf.data).
inline constexpr std::int64_t kInfiniteCardinality = -1;
inline constexpr std::int64_t kUnknownCardinality = -2;

/// What an iterator runs on (threads, buffers, counters); private to the library.
struct ExecutionContext;

class UserCode;
/// A `normalize_images` that devices may do instead of the host; private to the library.
struct LastNormalization;
using LastNormalizationPtr = std::shared_ptr<const LastNormalization>;

/// What a node needs to open a plan or an iterator. A value; an op derives the contexts of its inputs from
/// its own.
struct TDI_API IterContext {
  std::shared_ptr<ExecutionContext> execution;
  std::uint64_t seed = 0;       ///< base seed, for ops without a seed of their own
  std::uint64_t epoch_key = 0;  ///< the epoch and the rounds of `repeat`, folded into one number
  std::uint64_t path = 0;       ///< place in the graph: makes unseeded ops draw different orders
  std::uint64_t stream = 0;     ///< separates the rows of pipelines that read different data side by side
  bool stream_only = false;     ///< never use plans (tests of the sequential path)
  bool is_part = false;         ///< runs a dataset that a function made: its end is not the end of the data

  /// The context of input `index`.
  IterContext input(std::size_t index) const;
  /// The context of round `round` of a repeat.
  IterContext round(std::int64_t round) const;
  /// The key of a random op: from its own seed, else from the base seed and the op's place; also from the
  /// epoch unless `every_epoch` is false.
  std::uint64_t key(std::optional<std::int64_t> own_seed, bool every_epoch) const;
  /// The key of an op's rows for `random`; together with a row's number it gives the row's generator.
  std::uint64_t rows_key() const;
};

/// An iterator over elements. One thread at a time. After an exception from `next`, its position is
/// unspecified until `load`, except where a subclass says more.
class TDI_API Iterator {
 public:
  virtual ~Iterator();
  /// The next element, or nullopt at the end and at every later call.
  virtual std::optional<Element> next() = 0;
  /// The position after the element last returned: plain values, no data.
  virtual State save() const = 0;
  /// Goes to a saved position; assigns every field. Throws c10::ValueError for a state that is not of this
  /// kind of iterator, or damaged.
  virtual void load(const State& state) = 0;
};
using IteratorPtr = std::unique_ptr<Iterator>;

/// How sharding by file treats an op.
struct ShardingTraits {
  bool reader = false;        ///< reads records from files
  bool file_names = false;    ///< yields names of files
  bool pass_through = false;  ///< sharding by file may look through it to its inputs
  bool aligns = false;        ///< its inputs advance together: shards of them would pair other elements
  bool expands = false;       ///< makes a dataset of each element: few elements may be much data
  bool hint = false;          ///< the place where policy HINT shards its input
  /// Declares the number of elements, which sharding by file changes: the sharded pipeline omits this op.
  bool asserts_size = false;
};

/// How the elements of an op follow from those of input 0.
enum class Follows {
  kNot,     ///< they are new, or come from several inputs
  kEach,    ///< element i is made of element i
  kSame,    ///< element i is element i; the last ones may be left out
  kChosen,  ///< they are elements of it, unchanged: some or all, in any order, perhaps more than once
};

/// What an op does with rows.
struct RowTraits {
  bool fallible = false;  ///< a row may fail (the op runs callables or reads files)
  /// Its elements are batches of rows (true) or single rows (false); unset: as those of input 0, and single
  /// rows where there is no input.
  std::optional<bool> batches = {};
  /// Passes on the rows of input 0, one for one and in order, however they are batched: a saved position then
  /// stays valid with another batch size.
  bool row_wise = false;
  Follows follows = Follows::kNot;
};

/// How the elements of an op depend on order.
struct OrderTraits {
  bool random = false;    ///< its order is drawn: a shard by file must stand before it
  bool mixes = false;     ///< the turns of its inputs are drawn; each input keeps its order
  bool unseeded = false;  ///< a random op without a seed of its own: its order follows the base seed
  /// Depends on the number of an element among those of its inputs (`take`, `skip`, weights by step).
  bool counts = false;
  bool keeps = false;     ///< keeps what it has read for later epochs
  bool permutes = false;  ///< yields each element of its inputs, and each as often, in any order
  bool fixed = false;     ///< draws the same order in each epoch
};

/// What sharding, inference and checkpoints ask of a node instead of its class.
struct Traits {
  ShardingTraits sharding = {};
  RowTraits rows = {};
  OrderTraits order = {};
};

/// A node of a pipeline: an immutable description. Safe from any thread. References that methods return live
/// as long as the node.
class TDI_API Node : public std::enable_shared_from_this<Node> {
 public:
  virtual ~Node();

  /// The op's name as the user calls it: `batch`.
  virtual std::string_view name() const = 0;
  /// The call with its arguments: `batch(batch_size=4)`.
  virtual std::string describe() const = 0;
  /// What must be equal for a saved position to be valid, usually `describe()`; "" for ops that change
  /// nothing but speed.
  virtual std::string identity() const { return describe(); }

  /// The nodes whose elements it reads; empty for a source.
  virtual std::vector<NodePtr> inputs() const = 0;
  /// The same op over other inputs. REQUIRES: as many as `inputs()`.
  virtual NodePtr with_inputs(std::vector<NodePtr> inputs) const = 0;

  /// The type of the elements; null when it cannot be known. May run a user's function on the first element,
  /// once, and throws what that throws.
  virtual SpecPtr spec() const = 0;
  /// Elements an epoch, `kInfiniteCardinality` or `kUnknownCardinality`. A file whose records cannot be
  /// counted makes it unknown and throws nothing: the file is an error only where rows that fail are not
  /// skipped.
  virtual std::int64_t cardinality() const = 0;
  /// Throws the error of a file that made `cardinality` unknown, unless its records can be counted by now.
  virtual void check_sources() const;
  /// `cardinality`, after `check_sources` where rows that fail are not skipped.
  std::int64_t checked_cardinality() const;
  /// Rows of each element, except a short last one, as batch-size inference sees it: set by batching ops,
  /// passed on by ops that keep batches whole, else nullopt.
  virtual std::optional<std::int64_t> batch_size() const { return std::nullopt; }
  /// What sharding, inference and checkpoints must know of this op.
  virtual Traits traits() const { return {}; }
  /// The users' code that the op itself calls; its inputs' is not among it.
  virtual std::vector<const UserCode*> user_code() const { return {}; }
  /// Whether some of its `user_code` may block or needs an interpreter's lock (Python).
  bool runs_user_code() const;
  /// Whether its function makes datasets that read the files which its input names: sharding by file then
  /// shards the input. May run the function once, on the first element, and throws what that throws.
  virtual bool yields_readers() const { return false; }
  /// Options set on this node and its inputs; later ones win.
  virtual Options options() const;

  /// The `normalize_images` after which no op of this pipeline reads the contents of elements. Null where
  /// there is none, or where only the data tells the channels.
  virtual LastNormalizationPtr last_normalization() const;

  /// Random access to this epoch's elements, or null: then only `iterate` works. May read files to index
  /// them, and throws what that throws.
  virtual PlanPtr plan(const IterContext& context) const;
  /// An iterator that works element by element: the sequential path. Where there is a plan too, both yield
  /// identical elements.
  virtual IteratorPtr iterate(const IterContext& context) const = 0;
};

}  // namespace torch_distinput
