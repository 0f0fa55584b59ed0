// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "torch_distinput/dataset.h"
#include "torch_distinput/node.h"
#include "torch_distinput/records.h"
#include "torch_distinput/row_cost.h"

/// \file
/// The ops: one factory each, with its class in the .cpp file of the same name, whose doc says what the op
/// does to elements, rows, batch sizes, random access and state. Factories check their arguments and throw
/// c10::ValueError or c10::TypeError naming the op, the parameter, the rule and the value. Safe from any
/// thread. Defaults and rules are those of the tf.data method of the same name unless a doc says otherwise.

namespace torch_distinput::ops {

/// Stacks `batch_size` (>= 1) consecutive elements as rows of one; a short last batch is kept unless
/// `drop_remainder`.
NodePtr batch(NodePtr input, std::int64_t batch_size, bool drop_remainder);
/// The same with sizes that change with the number of the batch.
NodePtr batch(NodePtr input, std::vector<BatchSizeFrom> schedule, bool drop_remainder);
/// As `batch`, but dense leaves whose dims are not all known statically become ragged in their dim 0.
NodePtr ragged_batch(NodePtr input, std::int64_t batch_size, bool drop_remainder);
/// Makes each row along dim 0 an element.
NodePtr unbatch(NodePtr input);
/// Regroups rows into elements of `batch_sizes` (>= 0, not all 0) rows, taken in turn, across batch borders.
/// A short last element is kept unless `drop_remainder`.
NodePtr rebatch(NodePtr input, std::vector<std::int64_t> batch_sizes, bool drop_remainder);
/// Elements in a random order, of all elements or (`buffer_size`) within windows.
NodePtr shuffle(NodePtr input, ShuffleOptions options);
/// The input `count` times in a row; nullopt or -1 means without end.
NodePtr repeat(NodePtr input, std::optional<std::int64_t> count);
/// The first `count` elements; -1 means all.
NodePtr take(NodePtr input, std::int64_t count);
/// All but the first `count` elements; -1 skips all of them.
NodePtr skip(NodePtr input, std::int64_t count);
/// Elements k with k mod num_shards == index. With `require_non_empty`, an input with fewer elements than
/// shards is an InvalidArgumentError at the first `next`. `num_shards` kShardHint marks where policy HINT
/// shards.
NodePtr shard(NodePtr input, std::int64_t num_shards, std::int64_t index, bool require_non_empty = false);
/// Elements `indices[0]`, `indices[1]`, ... of `input`; int64 with one dim, copied. Throws c10::IndexError
/// for an index out of range. Not in tf.data.
NodePtr select(NodePtr input, const at::Tensor& indices);
/// `num_samples` elements of `input`, each drawn at random by its weight: `weights` has one real number for
/// each, and is copied. As torch's WeightedRandomSampler; not in tf.data.
NodePtr sample(NodePtr input, const at::Tensor& weights, std::int64_t num_samples, DrawOptions options);
/// Pairs (number, element), numbered from `start` on.
NodePtr enumerate(NodePtr input, std::int64_t start);
/// The elements of `first`, then those of `second`.
NodePtr concatenate(NodePtr first, NodePtr second);
/// Element i of each input, in the places of the leaves of `structure`, up to the end of the shortest input.
NodePtr zip(StructurePtr structure, std::vector<NodePtr> inputs);
/// Keeps elements in memory when they are first read.
NodePtr cache(NodePtr input);
/// The same in memory that the ranks of a job on a host share.
NodePtr shared_cache(NodePtr input);
/// Reads up to `buffer_size` elements ahead; 0 means none, and -1 lets the library choose.
NodePtr prefetch(NodePtr input, std::int64_t buffer_size);
/// The results of `function` for each element.
NodePtr map(NodePtr input, FunctionPtr function, MapOptions options);
/// The elements for which `predicate` returns true.
NodePtr filter(NodePtr input, FunctionPtr predicate);
/// The elements of the datasets that `function` makes of elements, in order.
NodePtr flat_map(NodePtr input, FunctionPtr function);
/// As `flat_map`, but `cycle_length` of these datasets take turns.
NodePtr interleave(NodePtr input, FunctionPtr function, InterleaveOptions options);
/// Elements whose leaves are datasets of up to `size` (>= 1) consecutive values.
NodePtr window(NodePtr input, std::int64_t size);
/// As `batch`, but shorter rows are padded.
NodePtr padded_batch(NodePtr input, std::int64_t batch_size, PaddedBatchOptions options);
/// Padded batches of elements of similar length (`length` returns one int scalar), as tf.data's
/// bucket_by_sequence_length.
NodePtr bucket_by_length(NodePtr input, FunctionPtr length, BucketOptions options);
/// Padded batches of elements whose costs add up to at most `budget`; a row that costs more is an error. Not
/// in tf.data.
NodePtr batch_by_cost(NodePtr input, RowCost cost, double budget, CostBatchOptions options);
/// Elements of `inputs`, each from an input drawn at random by weight, until all have ended.
NodePtr sample_from_datasets(std::vector<NodePtr> inputs, SampleOptions options);
/// Elements of `inputs`, each from the input whose index (int64 scalar) is the next element of `choice`.
NodePtr choose_from_datasets(std::vector<NodePtr> inputs, NodePtr choice);
/// Documents of tokens joined to rows of `sequence_length` tokens. Not in tf.data.
NodePtr pack(NodePtr input, std::int64_t sequence_length, PackOptions options);
/// The input, with known lengths of its elements. Not in tf.data.
NodePtr with_lengths(NodePtr input, LengthOptions options);
/// The elements without those that are equal to an earlier one.
NodePtr unique(NodePtr input);
/// The input, with an error if it has more or fewer than `cardinality` elements (-1: infinitely many).
NodePtr assert_cardinality(NodePtr input, std::int64_t cardinality);
/// uint8 images as numbers: (byte / 255 - mean) / std for each channel. Not in tf.data.
NodePtr normalize_images(NodePtr input, std::vector<double> mean, std::vector<double> std,
                         ImageOptions options);
/// Strings as numbers (decode_raw, to_number) or as features of tf.train.Example; `key` names their leaf. As
/// the functions of tf.io and tf.strings with these names.
NodePtr decode_raw(NodePtr input, c10::ScalarType dtype, Dims shape, std::optional<LeafKey> key);
NodePtr to_number(NodePtr input, c10::ScalarType dtype, std::optional<LeafKey> key);
NodePtr parse_example(NodePtr input, Features features, std::optional<LeafKey> key);
NodePtr parse_sequence_example(NodePtr input, Features context, SequenceFeatures sequences,
                               std::optional<LeafKey> key);
NodePtr parse_tensor(NodePtr input, c10::ScalarType dtype, std::optional<Dims> shape,
                     std::optional<LeafKey> key);
/// The members of dicts decoded by suffix: numbers (cls), text (txt, json), arrays (npy).
NodePtr decode_members(NodePtr input);
/// The input with `options` set for the whole pipeline; later ones win field by field.
NodePtr with_options(NodePtr input, Options options);

}  // namespace torch_distinput::ops
