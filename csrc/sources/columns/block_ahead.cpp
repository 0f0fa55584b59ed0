// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/block_ahead.h"

#include <exception>

#include "base/polling.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

/// Blocks that are asked for in one call: enough for neighbours in a file to become large requests.
constexpr std::size_t kMostTogether = 64;

}  // namespace

void BlockAhead::announce(std::span<const std::size_t> blocks, const IsKept& is_kept) {
  State& state = state_.get();
  {
    const std::lock_guard lock(state.mutex);
    for (const std::size_t block : blocks) {
      if (state.readers.contains(block) || is_kept(block)) continue;
      if (state.announced.try_emplace(block).second) state.waiting.push_back(block);
    }
  }
  ask_for_more();
}

/// The reader asks for a block itself that still waits.
void BlockAhead::begin(std::size_t block) {
  State& state = state_.get();
  std::unique_lock lock(state.mutex);
  const auto is_told = [&] {
    const auto found = state.announced.find(block);
    return found == state.announced.end() || found->second.phase != Phase::kAsking;
  };
  wait_polling(state.noted, lock, interrupt_check(), is_told);
  const auto found = state.announced.find(block);
  if (found != state.announced.end() && found->second.phase == Phase::kWaiting) state.announced.erase(found);
  ++state.readers[block];
}

void BlockAhead::end(std::size_t block) noexcept {
  State& state = state_.get();
  const std::lock_guard lock(state.mutex);
  const auto readers = state.readers.find(block);
  if (--readers->second == 0) state.readers.erase(readers);
  const auto found = state.announced.find(block);
  if (found == state.announced.end()) return;
  state.bytes -= found->second.bytes;
  --state.asked;
  state.announced.erase(found);
}

void BlockAhead::ask_for_more() {
  State& state = state_.get();
  std::unique_lock lock(state.mutex);
  if (state.is_asking) return;
  while (true) {
    const std::vector<std::size_t> blocks = next_of(state);
    if (blocks.empty()) return;
    const std::int64_t room = kBytes - state.bytes;
    state.is_asking = true;
    lock.unlock();  // it may run Python
    std::vector<std::int64_t> sizes;
    const AheadClaim::Scope asks(claim_);
    try {
      sizes = ask_(blocks, room);
      if (sizes.size() > blocks.size()) sizes.resize(blocks.size());
    } catch (const std::exception&) {
      sizes.clear();
    } catch (...) {
      lock.lock();
      state.is_asking = false;
      note(state, blocks, {});
      throw;
    }
    lock.lock();
    state.is_asking = false;
    note(state, blocks, sizes);
  }
}

/// The blocks to ask for next; none where enough is on its way. Half of it must have been read, so that
/// neighbours are asked for together.
std::vector<std::size_t> BlockAhead::next_of(State& state) {
  std::vector<std::size_t> blocks;
  if (state.asked >= kLeastBlocks && state.bytes > kBytes / 2) return blocks;
  while (!state.waiting.empty() && blocks.size() < kMostTogether) {
    const std::size_t block = state.waiting.front();
    state.waiting.pop_front();
    const auto found = state.announced.find(block);
    if (found == state.announced.end() || found->second.phase != Phase::kWaiting) continue;
    found->second.phase = Phase::kAsking;
    blocks.push_back(block);
  }
  return blocks;
}

/// The first of `blocks` were asked for, and the others wait again; they are dropped where none was.
void BlockAhead::note(State& state, std::span<const std::size_t> blocks,
                      std::span<const std::int64_t> sizes) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    state.announced[blocks[i]] = {Phase::kAsked, sizes[i]};
    state.bytes += sizes[i];
    ++state.asked;
  }
  const std::span<const std::size_t> others = blocks.subspan(sizes.size());
  for (const std::size_t block : others) {
    if (sizes.empty())
      state.announced.erase(block);
    else
      state.announced[block].phase = Phase::kWaiting;
  }
  if (!sizes.empty()) state.waiting.insert(state.waiting.begin(), others.begin(), others.end());
  state.noted.notify_all();
}

}  // namespace torch_distinput
