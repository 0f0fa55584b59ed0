// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "fake_nccl.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <set>
#include <tuple>
#include <vector>

namespace torch_distinput::fake_nccl {
namespace {

struct Comm {
  int clique;
  int rank;
  int size;
};

enum class Kind { kAllReduce, kReduce, kSend, kRecv };

struct Call {
  Kind kind;
  const Comm* comm;
  const void* from;
  void* to;
  std::size_t count;
  int type;
  int peer;  // or root
};

std::atomic<std::int64_t> made{0};
std::atomic<std::int64_t> meetings_held{0};
thread_local bool in_group = false;
thread_local std::vector<Call> calls;

int queue(const Call& call) {
  if (!in_group) return kInvalidUsage;
  calls.push_back(call);
  return 0;
}

template <class Number>
void add(const std::vector<Call>& parts, const Call& to) {
  std::vector<Number> sum(to.count);
  for (const Call& part : parts)
    for (std::size_t i = 0; i < to.count; ++i) sum[i] += static_cast<const Number*>(part.from)[i];
  std::memcpy(to.to, sum.data(), to.count * sizeof(Number));
}

/// Removes and returns the calls that match `first`, one of each rank, in order; empty if one is missing.
std::vector<Call> take_together(const Call& first) {
  std::vector<Call> parts;
  for (int rank = 0; rank < first.comm->size; ++rank) {
    const auto call = std::find_if(calls.begin(), calls.end(), [&](const Call& one) {
      return one.comm->rank == rank &&
             std::tuple(one.kind, one.comm->clique, one.count, one.type, one.peer) ==
                 std::tuple(first.kind, first.comm->clique, first.count, first.type, first.peer);
    });
    if (call == calls.end()) return {};
    parts.push_back(*call);
    calls.erase(call);
  }
  return parts;
}

bool reduce(const Call& first) {
  const auto parts = take_together(first);
  if (parts.empty()) return false;
  for (const Call& part : parts) {
    if (part.kind == Kind::kReduce && part.comm->rank != part.peer) continue;
    part.type == 7 ? add<float>(parts, part) : add<std::int64_t>(parts, part);
  }
  return true;
}

bool deliver(const Call& send) {
  const auto recv = std::find_if(calls.begin(), calls.end(), [&](const Call& one) {
    return one.kind == Kind::kRecv && one.comm->clique == send.comm->clique && one.comm->rank == send.peer &&
           one.peer == send.comm->rank && one.count == send.count && one.type == send.type;
  });
  if (recv == calls.end()) return false;
  std::memcpy(recv->to, send.from, send.count);
  calls.erase(recv);
  calls.erase(std::find_if(calls.begin(), calls.end(), [&](const Call& one) {
    return one.kind == Kind::kSend && one.comm == send.comm && one.peer == send.peer;
  }));
  return true;
}

}  // namespace

std::int64_t comms_made() { return made; }
std::int64_t rendezvous_of_all() { return meetings_held; }

}  // namespace torch_distinput::fake_nccl

// NOLINTBEGIN: NCCL's names
using namespace torch_distinput::fake_nccl;

extern "C" {

int ncclCommInitAll(void** comms, int count, const int* devices) {
  ++meetings_held;
  if (std::set<int>(devices, devices + count).size() != static_cast<std::size_t>(count))
    return kInvalidArgument;
  const int clique = static_cast<int>(made);
  for (int rank = 0; rank < count; ++rank) comms[rank] = new Comm{clique, rank, count};
  made += count;
  return 0;
}

int ncclGroupStart() {
  in_group = true;
  return 0;
}

int ncclGroupEnd() {
  in_group = false;
  bool complete = true;
  while (complete && !calls.empty()) {
    const Call first = *std::min_element(calls.begin(), calls.end(),
                                         [](const Call& a, const Call& b) { return a.kind < b.kind; });
    complete = first.kind == Kind::kSend ? deliver(first) : first.kind != Kind::kRecv && reduce(first);
  }
  calls.clear();
  return complete ? 0 : kInvalidUsage;
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int, void* comm, void*) {
  return queue({Kind::kAllReduce, static_cast<Comm*>(comm), from, to, count, type, 0});
}

int ncclReduce(const void* from, void* to, std::size_t count, int type, int, int root, void* comm, void*) {
  return queue({Kind::kReduce, static_cast<Comm*>(comm), from, to, count, type, root});
}

int ncclSend(const void* from, std::size_t count, int type, int peer, void* comm, void*) {
  return queue({Kind::kSend, static_cast<Comm*>(comm), from, nullptr, count, type, peer});
}

int ncclRecv(void* to, std::size_t count, int type, int peer, void* comm, void*) {
  return queue({Kind::kRecv, static_cast<Comm*>(comm), nullptr, to, count, type, peer});
}

const char* ncclGetErrorString(int result) {
  return result == kInvalidUsage ? "invalid usage" : "invalid argument";
}

}  // extern "C"
// NOLINTEND
