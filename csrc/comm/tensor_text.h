// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "comm/peer_text.h"
#include "torch_distinput/api.h"

namespace torch_distinput {

/// Whether elements of `dtype` are plain numbers, which their bytes describe completely: not quantized, and
/// of whole bytes.
bool is_plain(c10::ScalarType dtype) noexcept;

/// A plain dtype, written as its number. Throws as PeerTextReader does.
c10::ScalarType read_dtype(PeerTextReader& reader);

/// Whether `encode_tensors` takes `tensor`: one of plain numbers that is dense or a COO tensor, not nested.
TDI_API bool can_be_encoded(const at::Tensor& tensor);

/// Tensors as text for other ranks: dtypes, dims and the elements themselves, copied to the CPU. Throws
/// c10::TypeError unless all `can_be_encoded`.
TDI_API std::string encode_tensors(const std::vector<at::Tensor>& tensors);

/// The tensors in `text`, on the CPU. Their elements take no more memory than `text`. `whose`: what the
/// text is, with its rank, for messages. Throws DistributedDatasetError for a text that `encode_tensors`
/// cannot have made.
TDI_API std::vector<at::Tensor> decode_tensors(std::string_view text, const std::string& whose);

}  // namespace torch_distinput
