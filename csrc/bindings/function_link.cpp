// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/function_link.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "base/polling.h"
#include "base/row_names.h"
#include "torch_distinput/interrupt.h"
#include "torch_distinput/process_function.h"

namespace torch_distinput {

FunctionLink::FunctionLink(int processes, std::function<std::vector<EndedProcess>()> ended, std::string op)
    : ended_(std::move(ended)),
      op_(std::move(op)),
      end_(std::make_shared<WorkerMemory>(2 * processes)),
      rows_(static_cast<std::size_t>(processes)) {
  for (int process = 0; process < processes; ++process) tasks_.emplace_back(memory(), processes + process);
}

int FunctionLink::least_busy() const {
  return static_cast<int>(std::min_element(rows_.begin(), rows_.end()) - rows_.begin());
}

FunctionCallPtr FunctionLink::send(const Encoder& arguments, std::uint64_t key,
                                   std::vector<std::int64_t> numbers) {
  auto call = std::make_shared<FunctionCall>();
  call->numbers = std::move(numbers);
  TaskHead head{0, key, call->numbers.size(), {}};
  std::unique_lock lock(mutex_);
  if (lost_) throw LostProcessError(*lost_);
  call->process = least_busy();
  WorkerEnd& lane = tasks_[call->process];
  head.beside = allocate_beside(lane, arguments, kProgressBytes);
  call->slab = head.beside.slab;
  head.call = next_++;
  calls_.emplace(head.call, call);
  rows_[call->process] += std::ssize(call->numbers);
  lock.unlock();

  progress_of(lane.at(call->slab)).store(0, std::memory_order_relaxed);
  write_beside(lane, arguments, head.beside, kProgressBytes);
  std::string frame(bytes_of(std::span<const TaskHead>(&head, 1)));
  frame += bytes_of(std::span<const std::int64_t>(call->numbers));
  if (head.beside.tree_bytes == 0) frame += arguments.tree();
  lock.lock();
  end_.send(call->process, frame);
  return call;
}

Arrived FunctionLink::wait_for(FunctionCall& call) {
  std::unique_lock lock(mutex_);
  while (!call.result) {
    if (lost_) throw LostProcessError(*lost_);
    if (!listening_) {
      listen(lock);
    } else if (changed_.wait_for(lock, kPollInterval) == std::cv_status::timeout) {
      lock.unlock();
      if (interrupt_check()) interrupt_check()();
      lock.lock();
    }
  }
  return std::move(*call.result);
}

/// Receives what has come; where nothing has, waits for it, at most for one interval.
void FunctionLink::listen(std::unique_lock<std::mutex>& lock) {
  if (receive()) return;
  listening_ = true;
  lock.unlock();
  std::exception_ptr interrupt;
  try {
    end_.wait(kPollInterval);
    if (interrupt_check()) interrupt_check()();
    look_for_losses();
  } catch (...) {
    interrupt = std::current_exception();
  }
  lock.lock();
  listening_ = false;
  receive();
  changed_.notify_all();
  if (interrupt) std::rethrow_exception(interrupt);
}

/// Hands all results that have come to their calls; returns whether there were any.
bool FunctionLink::receive() {
  bool any = false;
  std::string frame;
  for (int process = end_.receive(frame); process >= 0; process = end_.receive(frame)) {
    ResultHead head{};
    std::memcpy(&head, frame.data(), sizeof(head));
    const auto found = calls_.find(head.call);
    FunctionCall& call = *found->second;
    const std::size_t head_bytes = sizeof(head) + call.numbers.size();
    Arrived arrived{std::move(frame), nullptr, head.beside, head_bytes};
    if (head.beside.slab != 0) arrived.slab = SlabsInUse::hold(end_.slabs(), process, head.beside.slab);
    rows_[process] -= std::ssize(call.numbers);
    call.nanoseconds = head.nanoseconds;
    call.result = std::move(arrived);
    calls_.erase(found);
    any = true;
  }
  if (any) changed_.notify_all();
  return any;
}

/// Only of processes that owe results.
void FunctionLink::look_for_losses() {
  if (Clock::now() - looked_ < kPollInterval) return;
  const std::vector<EndedProcess> ended = ended_();
  const std::lock_guard lock(mutex_);
  looked_ = Clock::now();
  if (ended.empty() || lost_) return;
  receive();  // what was sent before the end
  for (const EndedProcess& process : ended) {
    const auto call = std::find_if(calls_.begin(), calls_.end(), [&](const auto& entry) {
      return entry.second->process == process.process;
    });
    if (call == calls_.end()) continue;
    lost_ = loss(*call->second, process.how);
    return;
  }
}

std::string FunctionLink::loss(const FunctionCall& call, const std::string& how) {
  const std::uint64_t begun = progress_of(tasks_[call.process].at(call.slab)).load();
  const std::size_t row = std::clamp<std::uint64_t>(begun, 1, call.numbers.size()) - 1;
  return op_ + ": " + element_name(call.numbers[row]) + ": the process that " +
         (begun == 0 ? "was to run" : "ran") + " the function for it " + how + ".";
}

}  // namespace torch_distinput
