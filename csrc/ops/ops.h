// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "torch_distinput/dataset.h"
#include "torch_distinput/node.h"

/// \file
/// The ops: one factory each; the class after it lives in the .cpp file of the
/// same name. Factories check their arguments and throw c10::ValueError or
/// c10::TypeError naming the op, the parameter, the rule and the value.

namespace torch_distinput::ops {

/// Elements side by side as rows of one element; short last one kept or dropped.
NodePtr batch(NodePtr input, std::int64_t batch_size, bool drop_remainder);
/// As `batch`, but tensors whose dims are not all known statically become ragged.
NodePtr ragged_batch(NodePtr input, std::int64_t batch_size, bool drop_remainder);
/// Rows along dim 0 as elements.
NodePtr unbatch(NodePtr input);
/// Rows regrouped into sizes taken in turn, across the borders of batches.
NodePtr rebatch(NodePtr input, std::vector<std::int64_t> batch_sizes, bool drop_remainder);
NodePtr shuffle(NodePtr input, ShuffleOptions options);
NodePtr repeat(NodePtr input, std::optional<std::int64_t> count);
NodePtr take(NodePtr input, std::int64_t count);
NodePtr skip(NodePtr input, std::int64_t count);
/// Elements k with k mod num_shards == index. `require_non_empty`: an input with
/// fewer elements than shards is an error.
NodePtr shard(NodePtr input, std::int64_t num_shards, std::int64_t index, bool require_non_empty = false);
/// Elements `indices[0]`, `indices[1]`, ... of `input`; int64, one dim. Later changes of the tensor must not
/// happen while an iterator lives.
NodePtr select(NodePtr input, const at::Tensor& indices);
NodePtr enumerate(NodePtr input, std::int64_t start);
NodePtr concatenate(NodePtr first, NodePtr second);
NodePtr zip(StructurePtr structure, std::vector<NodePtr> inputs);
NodePtr cache(NodePtr input);
NodePtr prefetch(NodePtr input, std::int64_t buffer_size);
NodePtr map(NodePtr input, FunctionPtr function, MapOptions options);
NodePtr filter(NodePtr input, FunctionPtr predicate);
/// The elements of the datasets that `function` makes of elements, one after the other.
NodePtr flat_map(NodePtr input, FunctionPtr function);
/// The same, with several of these datasets taking turns.
NodePtr interleave(NodePtr input, FunctionPtr function, InterleaveOptions options);
/// Elements whose leaves are datasets of up to `size` consecutive values.
NodePtr window(NodePtr input, std::int64_t size);
NodePtr padded_batch(NodePtr input, std::int64_t batch_size, PaddedBatchOptions options);
NodePtr bucket_by_length(NodePtr input, FunctionPtr length, BucketOptions options);
NodePtr sample_from_datasets(std::vector<NodePtr> inputs, SampleOptions options);
NodePtr choose_from_datasets(std::vector<NodePtr> inputs, NodePtr choice);
NodePtr unique(NodePtr input);
NodePtr assert_cardinality(NodePtr input, std::int64_t cardinality);
/// uint8 images as numbers, (byte / 255 - mean) / std a channel.
NodePtr normalize_images(NodePtr input, std::vector<double> mean, std::vector<double> std,
                         ImageOptions options);
NodePtr with_options(NodePtr input, Options options);

}  // namespace torch_distinput::ops
