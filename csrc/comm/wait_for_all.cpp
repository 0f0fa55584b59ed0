// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/wait_for_all.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kWarnAfter{30};
constexpr std::chrono::milliseconds kInterruptInterval{50};

/// Between two looks, after a wait of `waited`: a small part of it, so that there are few looks and none
/// comes much too late.
Clock::duration pause_after(Clock::duration waited, bool urgent) {
  using std::chrono::microseconds;
  constexpr Clock::duration kShortest = microseconds{100};
  if (urgent) return std::clamp<Clock::duration>(waited / 8, kShortest, microseconds{2'000});
  return std::clamp<Clock::duration>(waited / 4, kShortest, microseconds{20'000});
}

std::vector<std::string> keys_of_all(const std::string& key, int size) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size; ++rank) keys.push_back(key + "/" + std::to_string(rank));
  return keys;
}

std::vector<int> missing(Communicator& communicator, const std::vector<std::string>& keys) {
  std::vector<int> ranks;
  for (int rank = 0; rank < communicator.size(); ++rank)
    if (!communicator.look({keys[static_cast<std::size_t>(rank)]})) ranks.push_back(rank);
  return ranks;
}

void warn(const Communicator& communicator, const std::vector<int>& ranks, const Patience& patience) {
  std::ostringstream text;
  text << patience.what << ": rank " << communicator.rank() << " has waited " << kWarnAfter.count()
       << " s for " << name_ranks(ranks) << ".";
  if (patience.activity)
    for (const int rank : ranks) text << " Rank " << rank << " " << patience.activity(rank) << ".";
  TORCH_WARN(text.str());
}

/// The last one to read takes the texts away.
void leave(Communicator& communicator, const std::string& key, const std::vector<std::string>& keys) {
  const std::string readers = key + "/readers";
  if (communicator.add(readers, 1) < communicator.size()) return;
  for (const auto& text : keys) communicator.remove(text);
  communicator.remove(readers);
}

}  // namespace

std::vector<std::string> wait_for_all(Communicator& communicator, const std::string& key,
                                      const std::string& mine, const Patience& patience) {
  const auto keys = keys_of_all(key, communicator.size());
  communicator.post(keys[static_cast<std::size_t>(communicator.rank())], mine);
  const auto start = Clock::now();
  auto next_interrupt = start + kInterruptInterval;
  bool warned = false;
  while (true) {
    if (auto texts = communicator.look(keys)) {
      leave(communicator, key, keys);
      return std::move(*texts);
    }
    const auto now = Clock::now();
    if (now - start >= patience.timeout) {
      std::ostringstream text;
      text << patience.what << ": rank " << communicator.rank() << " waited " << patience.timeout.count()
           << " s (`peer_timeout`) for " << name_ranks(missing(communicator, keys))
           << ". Every rank has to open its iterators in the same order and ask for their first step.";
      throw DistributedDatasetError(text.str());
    }
    if (now - start >= kWarnAfter && !std::exchange(warned, true))
      warn(communicator, missing(communicator, keys), patience);
    if (interrupt_check() && now >= next_interrupt) {
      interrupt_check()();
      next_interrupt = now + kInterruptInterval;
    }
    patience.check();
    std::this_thread::sleep_for(pause_after(now - start, patience.urgent()));
  }
}

std::string name_ranks(const std::vector<int>& ranks) {
  std::ostringstream text;
  text << (ranks.size() == 1 ? "rank " : "ranks ");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text << (i + 1 == ranks.size() ? " and " : ", ");
    text << ranks[i];
  }
  return text.str();
}

}  // namespace torch_distinput
