// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/preprocessing/encode.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

namespace torch_distinput::preprocessing {
namespace {

/// Rows of indices: row i is [bounds(i), bounds(i + 1)).
struct IndexRows {
  const std::int64_t* values;
  const std::int64_t* offsets;  ///< null: all rows have `width` indices
  std::int64_t count;
  std::int64_t width;

  std::int64_t bound(std::int64_t row) const { return offsets == nullptr ? row * width : offsets[row]; }
};

template <class Number>
at::Tensor zeros(const std::vector<std::int64_t>& sizes) {
  at::Tensor result = at::empty(sizes, c10::CppTypeToScalarType<Number>::value);
  if (result.numel() > 0) std::memset(result.mutable_data_ptr(), 0, result.nbytes());
  return result;
}

/// Writes one vector for each row.
template <class Number>
void fill(const IndexRows& rows, const VectorOptions& options, const float* item_weights, Number* to) {
  const bool once =
      options.output.mode == OutputMode::kMultiHot || options.output.mode == OutputMode::kOneHot;
  const bool weighted = options.output.mode == OutputMode::kTfIdf;
  const float* const weights = weighted ? options.weights.const_data_ptr<float>() : nullptr;
  for (std::int64_t row = 0; row < rows.count; ++row, to += options.depth) {
    for (std::int64_t at = rows.bound(row); at < rows.bound(row + 1); ++at) {
      const std::int64_t index = rows.values[at];
      if (index < 0 || index >= options.depth) continue;
      if (once) {
        to[index] = Number{1};
      } else if (item_weights != nullptr) {
        to[index] += static_cast<Number>(item_weights[at]);
      } else {
        to[index] += Number{1};
      }
    }
    if (!weighted) continue;
    for (std::int64_t i = 0; i < options.depth; ++i) to[i] *= static_cast<Number>(weights[i]);
  }
}

/// Sums in float32 where results or weights are not integers, else in int64.
bool in_floats(const VectorOptions& options, const at::Tensor& item_weights) {
  return options.output.mode == OutputMode::kTfIdf || item_weights.defined() ||
         c10::isFloatingType(options.output.dtype);
}

c10::ScalarType result_dtype(const VectorOptions& options) {
  return options.output.mode == OutputMode::kTfIdf ? c10::ScalarType::Float : options.output.dtype;
}

at::Tensor dense_vectors(const IndexRows& rows, const VectorOptions& options, const at::Tensor& item_weights,
                         const std::vector<std::int64_t>& sizes) {
  const float* const weights = item_weights.defined() ? item_weights.const_data_ptr<float>() : nullptr;
  at::Tensor result;
  if (in_floats(options, item_weights)) {
    result = zeros<float>(sizes);
    fill(rows, options, weights, result.mutable_data_ptr<float>());
  } else {
    result = zeros<std::int64_t>(sizes);
    fill(rows, options, weights, result.mutable_data_ptr<std::int64_t>());
  }
  return result.to(result_dtype(options));
}

/// One entry of a sparse result: its row, its index, its value.
struct Entry {
  std::int64_t row;
  std::int64_t index;
  float value;
};

/// The entries of all rows, sorted by row and index, each index once.
std::vector<Entry> sparse_entries(const IndexRows& rows, const VectorOptions& options,
                                  const float* item_weights) {
  const bool once = options.output.mode == OutputMode::kMultiHot;
  std::vector<Entry> entries;
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const auto first = static_cast<std::ptrdiff_t>(entries.size());
    for (std::int64_t at = rows.bound(row); at < rows.bound(row + 1); ++at) {
      const std::int64_t index = rows.values[at];
      if (index >= 0 && index < options.depth)
        entries.push_back({row, index, item_weights == nullptr ? 1.0F : item_weights[at]});
    }
    std::stable_sort(entries.begin() + first, entries.end(),
                     [](const Entry& a, const Entry& b) { return a.index < b.index; });
    auto kept = entries.begin() + first;
    for (auto at = kept; at != entries.end(); ++at) {
      if (kept != entries.begin() + first && (kept - 1)->index == at->index) {
        if (!once) (kept - 1)->value += at->value;
      } else {
        *kept++ = *at;
      }
    }
    entries.erase(kept, entries.end());
  }
  return entries;
}

at::Tensor sparse_vectors(const IndexRows& rows, const VectorOptions& options, const at::Tensor& item_weights,
                          const std::vector<std::int64_t>& sizes) {
  const float* const given = item_weights.defined() ? item_weights.const_data_ptr<float>() : nullptr;
  const std::vector<Entry> entries = sparse_entries(rows, options, given);
  const auto count = static_cast<std::int64_t>(entries.size());
  const auto dims = static_cast<std::int64_t>(sizes.size());
  const bool weighted = options.output.mode == OutputMode::kTfIdf;
  const float* const weights = weighted ? options.weights.const_data_ptr<float>() : nullptr;
  at::Tensor places = at::empty({dims, count}, at::kLong);
  at::Tensor values = at::empty({count}, at::kFloat);
  auto* const place = places.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const Entry& entry = entries[static_cast<std::size_t>(i)];
    place[(dims - 1) * count + i] = entry.index;
    std::int64_t row = entry.row;
    for (std::int64_t dim = dims - 2; dim >= 0; --dim) {
      place[dim * count + i] = row % sizes[static_cast<std::size_t>(dim)];
      row /= sizes[static_cast<std::size_t>(dim)];
    }
    values.mutable_data_ptr<float>()[i] = weighted ? entry.value * weights[entry.index] : entry.value;
  }
  values = values.to(result_dtype(options));
  return at::_sparse_coo_tensor_unsafe(places, values, sizes, values.options().layout(at::kSparse),
                                       /*is_coalesced=*/true);
}

at::Tensor vectors(const IndexRows& rows, const VectorOptions& options, const at::Tensor& item_weights,
                   std::vector<std::int64_t> sizes) {
  sizes.push_back(options.depth);
  return options.output.sparse ? sparse_vectors(rows, options, item_weights, sizes)
                               : dense_vectors(rows, options, item_weights, sizes);
}

at::Tensor encode_dense(const at::Tensor& values, const VectorOptions& options,
                        const at::Tensor& item_weights) {
  std::vector<std::int64_t> sizes = values.sizes().vec();
  if (sizes.empty()) sizes.push_back(1);
  const auto* const data = values.const_data_ptr<std::int64_t>();
  if (options.output.mode == OutputMode::kOneHot) {
    if (sizes.size() > 1 && sizes.back() == 1) sizes.pop_back();
    return vectors({data, nullptr, values.numel(), 1}, options, item_weights, std::move(sizes));
  }
  const std::int64_t width = sizes.back();
  sizes.pop_back();
  const std::int64_t rows = c10::multiply_integers(sizes);
  return vectors({data, nullptr, rows, width}, options, item_weights, std::move(sizes));
}

Leaf as_leaf(at::Tensor vectors, bool sparse) {
  if (sparse) return Sparse{std::move(vectors)};
  return vectors;
}

}  // namespace

Leaf encode(const Indices& indices, const VectorOptions& options, const at::Tensor& item_weights,
            std::string_view layer) {
  const OutputOptions& output = options.output;
  const at::Tensor& values = indices.values;
  if (!indices.offsets.defined()) {
    if (output.mode == OutputMode::kInt) return values.to(output.dtype);
    return as_leaf(encode_dense(values, options, item_weights), output.sparse);
  }
  if (output.mode == OutputMode::kInt) return Ragged{values.to(output.dtype), indices.offsets};
  if (output.mode != OutputMode::kOneHot && values.dim() == 1) {
    const std::int64_t rows = indices.offsets.size(0) - 1;
    const IndexRows ragged{values.const_data_ptr<std::int64_t>(),
                           indices.offsets.const_data_ptr<std::int64_t>(), rows, 0};
    return as_leaf(vectors(ragged, options, item_weights, {rows}), output.sparse);
  }
  TORCH_CHECK_VALUE(!output.sparse, layer,
                    ": `sparse=True` does not work for one vector for each item of ragged rows; use "
                    "`sparse=False`, or output_mode 'multi_hot' or 'count'.");
  return Ragged{encode_dense(values, options, item_weights), indices.offsets};
}

}  // namespace torch_distinput::preprocessing
