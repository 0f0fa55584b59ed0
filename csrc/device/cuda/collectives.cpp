// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/cuda/collectives.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "device/cuda/nccl.h"

namespace torch_distinput {
namespace {

constexpr int kNoNccl = -1'000'000;

using Comms = std::vector<NcclComm>;

/// Negated, because NCCL's results and CUDA's errors are both positive.
int as_error(int result) { return -result; }

std::mutex& turn() {
  static std::mutex mutex;
  return mutex;
}

/// The result of connecting a set of devices.
struct Rendezvous {
  Comms comms;
  int error = 0;  // not 0: they cannot be connected, and `comms` is empty
};

Rendezvous meet(const std::vector<int>& devices) {
  if (nccl() == nullptr) return {{}, kNoNccl};
  Comms comms(devices.size());
  const int result = nccl()->comm_init_all(comms.data(), static_cast<int>(devices.size()), devices.data());
  return result == 0 ? Rendezvous{std::move(comms), 0} : Rendezvous{{}, as_error(result)};
}

/// Connects `devices` at the first call only, as that takes seconds even if it fails. The communicators are
/// leaked: at exit the driver may be gone before them. REQUIRES: the caller has locked `turn()`.
const Rendezvous& meeting_of(const std::vector<int>& devices) {
  static auto& known = *new std::map<std::vector<int>, Rendezvous>();
  auto entry = known.find(devices);
  if (entry == known.end()) entry = known.emplace(devices, meet(devices)).first;
  return entry->second;
}

/// Calls `queue(place, comm)` for all parts in one NCCL group, which starts them together.
template <class Queue>
int together(const DevicePart* parts, std::int32_t count, const Queue& queue) {
  std::vector<int> devices;
  for (std::int32_t place = 0; place < count; ++place) devices.push_back(parts[place].device);
  const std::lock_guard lock(turn());
  const auto& [comms, error] = meeting_of(devices);
  if (error != 0) return error;
  if (const int result = nccl()->group_start(); result != 0) return as_error(result);
  int result = 0;
  for (std::int32_t place = 0; place < count && result == 0; ++place)
    result = queue(place, comms[static_cast<std::size_t>(place)]);
  const int ended = nccl()->group_end();
  return as_error(result != 0 ? result : ended);
}

std::size_t items(const DevicePart& part) { return static_cast<std::size_t>(part.count); }

}  // namespace

int nccl_init(const std::int32_t* devices, std::int32_t count) {
  const std::lock_guard lock(turn());
  return meeting_of({devices, devices + count}).error;
}

int nccl_all_reduce(const DevicePart* parts, std::int32_t count, NumberType type) {
  return together(parts, count, [&](std::int32_t place, NcclComm comm) {
    const DevicePart& part = parts[place];
    return nccl()->all_reduce(part.from, part.to, items(part), static_cast<int>(type), kNcclSum, comm,
                              part.stream);
  });
}

int nccl_reduce(const DevicePart* parts, std::int32_t count, NumberType type, std::int32_t root) {
  return together(parts, count, [&](std::int32_t place, NcclComm comm) {
    const DevicePart& part = parts[place];
    return nccl()->reduce(part.from, part.to, items(part), static_cast<int>(type), kNcclSum, root, comm,
                          part.stream);
  });
}

int nccl_gather(const DevicePart* parts, std::int32_t count, std::int32_t root) {
  return together(parts, count, [&](std::int32_t place, NcclComm comm) {
    const DevicePart& part = parts[place];
    int result = 0;
    if (part.count > 0) result = nccl()->send(part.from, items(part), kNcclUint8, root, comm, part.stream);
    for (std::int32_t peer = 0; place == root && peer < count && result == 0; ++peer) {
      const DevicePart& sent = parts[peer];
      if (sent.count > 0) result = nccl()->recv(sent.to, items(sent), kNcclUint8, peer, comm, part.stream);
    }
    return result;
  });
}

const char* collective_error_text(int error) {
  if (error == kNoNccl) return "libnccl.so.2 was not found";
  return nccl() == nullptr ? "unknown" : nccl()->error_string(-error);
}

}  // namespace torch_distinput
