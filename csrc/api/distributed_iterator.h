// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "api/iterator_shell.h"
#include "core/interrupt_watch.h"
#include "distribute/checkpoint/saved_position.h"
#include "distribute/coordination/peer_link.h"
#include "distribute/steps/device_transfer.h"
#include "distribute/steps/step_source.h"
#include "remote/ahead_claim.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// `DistributedIterator` without its public face; methods as documented there.
struct DistributedIterator::Impl {
 public:
  /// `epochs`: the count that this iterator takes part in; null: none. `link`: to the other processes; null:
  /// there are none. `seed_given`: the user set the seed. `facts`: of the user, for the handshake.
  Impl(DistributionPtr distribution, std::shared_ptr<EpochCount> epochs, EpochPosition at, bool stream_only,
       bool with_rows, std::unique_ptr<PeerLink> link, bool seed_given, std::vector<Handshake::Fact> facts);
  ~Impl();

  /// The next step, as `next` (`only_complete`) or as `get_next_as_optional` returns it.
  std::optional<PerReplica> take(bool only_complete);
  void follow(const std::optional<StepInfo>& info, const State& after);
  const std::optional<StepInfo>& info() const noexcept { return info_; }
  /// Whether the data counts as endless (infinite cardinality).
  bool endless() const noexcept { return distribution_->cardinality == kInfiniteCardinality; }
  State save() const { return save_position({distribution_, at_}); }
  State state_at(std::int64_t step) const;
  void set_weights(std::vector<double> weights, std::optional<std::int64_t> step);
  void exclude(std::vector<std::int64_t> rows);
  void load(const State& state);
  bool is_remote() const { return source_ && source_->is_remote(); }
  void begin_reading(std::uint64_t seed);
  bool failed() const noexcept { return shell_.error() != nullptr; }
  Stats stats() const;
  void close(std::chrono::milliseconds timeout);

 private:
  template <class Work>
  void work_with_peers(const InterruptWatch& watch, const Work& work);
  void open_with_peers();
  void learn_spec(const SpecSummary& all);
  void leave_peers() noexcept;
  IterContext context_of(const Distribution& distribution) const;
  IterContext context_of_steps();
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
  std::vector<std::int64_t> sampled_by_plan(std::int64_t step) const;
  std::int64_t drawn_before(std::int64_t step) const;

  DistributionPtr given_;
  // `given_`, or the rest of an epoch that another set of ranks began, or without the excluded rows
  DistributionPtr distribution_;
  EpochPosition at_;  // after the step last handed out
  bool stream_only_;
  bool with_rows_;
  std::unique_ptr<PeerLink> link_;
  std::vector<Handshake::Fact> facts_;
  bool users_seed_;
  bool seed_given_;               // the seed is the user's, or a saved state's
  std::int64_t rows_before_ = 0;  // of the epoch before the handshake, over all ranks
  IteratorShell shell_;
  DeviceTransferPtr transfer_;          // null before the first step, and where all parts stay on the host
  bool agrees_ = false;                 // source_ agrees on steps with the other processes, in rounds
  std::unique_ptr<StepSource> source_;  // null before the first step is asked for, and after load
  std::optional<std::uint64_t> early_;  // the seed of a source_ that was opened before the peers were asked
  std::optional<AheadClaim> probe_;     // of what the handshake will compare, asked for before it
  std::optional<BuiltStep> ahead_;      // built and not handed out yet
  std::optional<StepInfo> info_;
  bool ended_ = false;              // no step follows
  bool interrupted_ = false;        // source_ and ahead_ are not at this iterator's position
  std::int64_t earlier_waits_ = 0;  // of the step sources before source_
};

}  // namespace torch_distinput
