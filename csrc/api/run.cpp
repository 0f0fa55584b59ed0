// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "api/replica_exchange.h"
#include "api/replica_run.h"
#include "api/replica_threads.h"
#include "api/value_rounds.h"
#include "core/message_of.h"
#include "torch_distinput/error.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {
namespace {

thread_local const ReplicaContext* current_replica = nullptr;

bool is_broken_exchange(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ExchangeBroken&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// Throws a ReplicaError, with the error of the lowest replica that failed by itself nested in it; returns if
/// no replica failed.
void throw_errors(std::vector<std::exception_ptr> errors) {
  std::string text;
  std::exception_ptr first;
  for (const bool broken : {false, true}) {
    if (first) break;  // replicas that only missed the others' values are named if there is nothing else
    for (std::size_t replica = 0; replica < errors.size(); ++replica) {
      if (!errors[replica] || is_broken_exchange(errors[replica]) != broken) continue;
      if (!first) first = errors[replica];
      text += (text.empty() ? "" : "; ") + c10::str("replica ", replica, ": ", message_of(errors[replica]));
    }
  }
  if (!first) return;
  const ReplicaError error(c10::str("run: of ", errors.size(), " replicas failed ", text), errors);
  try {
    std::rethrow_exception(first);
  } catch (...) {
    std::throw_with_nested(error);
  }
}

}  // namespace

ReplicaContext::ReplicaContext(std::int64_t replica_id, std::int64_t num_replicas, std::size_t local_replica,
                               c10::Device device, ReplicaExchange& exchange)
    : replica_id_(replica_id),
      num_replicas_(num_replicas),
      local_replica_(local_replica),
      device_(device),
      exchange_(exchange),
      outer_(std::exchange(current_replica, this)) {}

ReplicaContext::~ReplicaContext() { current_replica = outer_; }

const ReplicaContext* get_replica_context() noexcept { return current_replica; }

at::Tensor ReplicaContext::all_reduce(ReduceOp op, const at::Tensor& value) const {
  const std::size_t first = static_cast<std::size_t>(replica_id_) - local_replica_;
  const auto join = [op, first, this](const std::vector<at::Tensor>& all) {
    std::vector<c10::Device> devices;
    for (std::size_t i = 0; i < exchange_.size(); ++i) devices.push_back(all[first + i].device());
    return torch_distinput::all_reduce(op, all, devices);
  };
  const char* const name = op == ReduceOp::kSum ? "SUM" : "MEAN";
  return exchange_.exchange(local_replica_, c10::str("all_reduce(", name, ")"), value, join);
}

at::Tensor ReplicaContext::all_gather(const at::Tensor& value, std::int64_t axis) const {
  const std::size_t first = static_cast<std::size_t>(replica_id_) - local_replica_;
  const auto join = [axis, first, this](const std::vector<at::Tensor>& all) {
    std::vector<at::Tensor> results;
    for (std::size_t i = 0; i < exchange_.size(); ++i)
      results.push_back(gather(all, axis, all[first + i].device()));
    return results;
  };
  return exchange_.exchange(local_replica_, c10::str("all_gather(axis=", axis, ")"), value, join);
}

void Strategy::run_replicas(const std::function<void(const ReplicaContext&)>& call) const {
  const std::size_t count = devices_.size();
  if (current_replica != nullptr) {
    throw FailedPreconditionError("run: called in replica " +
                                  std::to_string(current_replica->replica_id_in_sync_group()) +
                                  " of another `run`; a replica's function must not call `run`.");
  }
  ReplicaRun run(devices_);
  ReplicaExchange exchange(run, [this](const auto& values) { return values_of_all(values); });
  std::vector<std::exception_ptr> errors(count);
  const auto run_one = [&](std::size_t replica) {
    try {
      run.call(replica, [&] {
        const ReplicaContext context(
            rank_ * static_cast<std::int64_t>(count) + static_cast<std::int64_t>(replica),
            num_replicas_in_sync(), replica, devices_[replica], exchange);
        call(context);
      });
    } catch (...) {
      errors[replica] = std::current_exception();
    }
  };
  if (count == 1)
    run_one(0);
  else
    threads_->run(run_one);
  throw_errors(std::move(errors));
}

std::vector<at::Tensor> Strategy::values_of_all(const std::vector<at::Tensor>& values) const {
  return value_rounds_ ? value_rounds_->of_all(values) : values;
}

at::Tensor Strategy::reduce(ReduceOp op, const std::vector<at::Tensor>& values,
                            const std::optional<std::vector<std::int64_t>>& axis) const {
  check_one_for_each(values, "reduce");
  return torch_distinput::reduce(op, values_of_all(values), axis, values.front().device());
}

at::Tensor Strategy::gather(const std::vector<at::Tensor>& values, std::int64_t axis) const {
  check_one_for_each(values, "gather");
  return torch_distinput::gather(values_of_all(values), axis, values.front().device());
}

void Strategy::check_one_for_each(const std::vector<at::Tensor>& values, const char* call) const {
  TORCH_CHECK_VALUE(values.size() == devices_.size(), call,
                    ": there must be one value for each local replica, ", devices_.size(), ", but there are ",
                    values.size(), ".");
}

}  // namespace torch_distinput
