// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/replica_exchange.h"

#include <c10/util/Exception.h>

namespace torch_distinput {

at::Tensor ReplicaExchange::exchange(std::size_t replica, std::string call, at::Tensor value,
                                     const Join& join) {
  calls_[replica] = std::move(call);
  values_[replica] = std::move(value);
  run_.meet(replica, [&] { results_ = joined(join); });
  return std::exchange(results_[replica], {});
}

ReplicaExchange::Tensors ReplicaExchange::joined(const Join& join) const {
  for (std::size_t replica = 0; replica < size(); ++replica) {
    TORCH_CHECK_VALUE(calls_[replica] == calls_[0], "run: replica 0 called ", calls_[0], ", but replica ",
                      replica, " called ", calls_[replica], ".");
  }
  Tensors results = join(across_(values_));
  // A replica that records no gradients must not get a result that requires them because others do.
  for (std::size_t replica = 0; replica < size(); ++replica)
    if (!run_.records(replica)) results[replica] = results[replica].detach();
  return results;
}

}  // namespace torch_distinput
