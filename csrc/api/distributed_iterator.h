// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "api/iterator_shell.h"
#include "distribute/checkpoint/saved_position.h"
#include "distribute/coordination/peer_link.h"
#include "distribute/steps/device_transfer.h"
#include "distribute/steps/step_source.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// `DistributedIterator` without its public face; methods as documented there.
struct DistributedIterator::Impl {
 public:
  /// `epochs`: the count that this iterator takes part in; null: none. `link`: to the other processes; null:
  /// there are none. `seed_given`: the user set the seed. `facts`: of the user, for the handshake.
  Impl(DistributionPtr distribution, std::shared_ptr<EpochCount> epochs, EpochPosition at, bool stream_only,
       std::unique_ptr<PeerLink> link, bool seed_given, std::vector<Handshake::Fact> facts);
  ~Impl();

  /// The next step, as `next` (`only_complete`) or as `get_next_as_optional` returns it.
  std::optional<PerReplica> take(bool only_complete);
  const std::optional<StepInfo>& info() const noexcept { return info_; }
  /// Whether the data counts as endless (infinite cardinality).
  bool endless() const noexcept { return distribution_->cardinality == kInfiniteCardinality; }
  State save() const { return save_position({distribution_, at_}); }
  State state_at(std::int64_t step) const;
  void load(const State& state);
  Stats stats() const;
  void close(std::chrono::milliseconds timeout);

 private:
  void open_with_peers();
  void learn_spec(const SpecSummary& all);
  void leave_peers() noexcept;
  IterContext context_of(const Distribution& distribution) const;
  std::unique_ptr<StepSource> make_step_source();
  bool keeps_together(const IterContext& context) const;
  BuiltStep* peek();
  bool refuses_incomplete(bool only_complete) const;
  bool hands_out(const BuiltStep* step, bool only_complete) const;
  PerReplica hand_out(bool only_complete);
  void count(const PerReplica& values);
  void stop();
  std::unique_ptr<StepSource> detach_source();
  std::int64_t waits() const;
  std::vector<std::int64_t> sampled_by_plan() const;

  DistributionPtr given_;
  DistributionPtr distribution_;  // `given_`, or the rest of an epoch that another set of ranks began
  EpochPosition at_;              // after the step last handed out
  bool stream_only_;
  std::unique_ptr<PeerLink> link_;
  std::vector<Handshake::Fact> facts_;
  bool users_seed_;
  bool seed_given_;               // the seed is the user's, or a saved state's
  std::int64_t rows_before_ = 0;  // of the epoch before the handshake, over all ranks
  IteratorShell shell_;
  DeviceTransferPtr transfer_;          // null before the first step, and where all parts stay on the host
  bool agrees_ = false;                 // source_ agrees on steps with the other processes, in rounds
  std::unique_ptr<StepSource> source_;  // null before the first step is asked for, and after load
  std::optional<BuiltStep> ahead_;      // built and not handed out yet
  std::optional<StepInfo> info_;
  bool ended_ = false;              // no step follows
  bool interrupted_ = false;        // source_ and ahead_ are not at this iterator's position
  std::int64_t earlier_waits_ = 0;  // of the step sources before source_
};

}  // namespace torch_distinput
