// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/step_info.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <c10/util/Exception.h>

namespace torch_distinput {

at::Tensor scaled_mean(const at::Tensor& loss, const StepInfo& info, const at::Tensor& anchor,
                       std::int64_t replica) {
  TORCH_CHECK_VALUE(replica >= 0 && replica < std::ssize(info.valid), "scaled_mean: `info` has entries for ",
                    info.valid.size(), " replicas, but `replica` is ", replica, ".");
  const auto index = static_cast<std::size_t>(replica);
  if (info.valid[index] == 0) return anchor.flatten().slice(0, 0, 0).sum().to(loss.scalar_type());
  return loss.mul(info.loss_scale[index]);
}

at::Tensor distributed_mean(const at::Tensor& loss_sum, const StepInfo& info) {
  if (info.global_valid == 0) return loss_sum.mul(0.0);
  return loss_sum.mul(static_cast<double>(info.num_replicas) / static_cast<double>(info.global_valid));
}

at::Tensor restore_order(const at::Tensor& rows, const StepInfo& info) {
  const std::int64_t wanted = info.order ? info.order->rows : info.global_valid;
  TORCH_CHECK_VALUE(rows.dim() > 0 && rows.size(0) == wanted, "restore_order: `rows` must have the ", wanted,
                    " rows of the step along dim 0, but has shape ", rows.sizes(),
                    "; gather the parts of all replicas along axis 0.");
  if (!info.order) return rows;
  std::vector<at::Tensor> pieces;
  for (const auto& piece : info.order->pieces) pieces.push_back(rows.slice(0, piece.begin, piece.end));
  return pieces.empty() ? rows.slice(0, 0, 0) : at::cat(pieces);
}

}  // namespace torch_distinput
