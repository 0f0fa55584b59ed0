// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <c10/util/Exception.h>

#include "distribute/coordination/peer_link.h"
#include "distribute/steps/distribution.h"
#include "distribute/steps/plan_rows.h"
#include "execution/epoch_count.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// What copies of a `DistributedDataset` share. Safe from any thread.
struct DistributedDataset::Impl {
  /// `peers`: the other processes; null: there are none. Throws c10::ValueError for tail "repeat" where the
  /// processes read streams of their own, also for a process alone under policy STREAMS.
  Impl(DistributionPtr shared, const PeersPtr& peers)
      : distribution(std::move(shared)),
        epochs(std::make_shared<EpochCount>()),
        handshakes(peers ? std::make_shared<HandshakeKeys>(peers) : nullptr) {
    TORCH_CHECK_VALUE(
        (!peers && !distribution->assignment.streams) || distribution->one_stream() ||
            distribution->input.tail != Tail::kRepeat,
        "InputOptions: `tail` \"repeat\" needs one stream for all processes, but here each reads "
        "its own; use another tail or AutoShardPolicy DATA.");
  }

  /// The base seed: that of the pipeline, else one that is drawn once.
  std::uint64_t seed() const;
  /// The rows of the next epoch of `distribution` (this dataset's, or that of one of its pipelines) by its
  /// plan; null where it has no plan.
  IterContext next_context(const Distribution& distribution, bool stream_only) const;
  std::shared_ptr<PlanRows> next_rows(const Distribution& distribution) const;
  /// Steps an epoch of `distribution`, nullopt where unknown. `only_complete`: counts only steps that have
  /// the parts of all replicas.
  std::optional<std::int64_t> num_steps(const Distribution& distribution, bool only_complete) const;

  DistributionPtr distribution;
  std::shared_ptr<EpochCount> epochs;
  std::shared_ptr<HandshakeKeys> handshakes;  ///< null in a single process

 private:
  std::optional<std::int64_t> steps_of_streams(const Distribution& distribution, bool only_complete) const;
  std::optional<std::int64_t> pipeline_steps(const Distribution& distribution, bool only_complete) const;
};

/// The text of `DistributedDataset::sharding`.
std::string describe_sharding(const Distribution& distribution);

/// The report of `DistributedDataset::explain`. `rows`: those of the next epoch, null for the sequential
/// path; `steps`: as `DistributedDataset::num_steps`.
std::string explain(const Distribution& distribution, const std::shared_ptr<PlanRows>& rows,
                    std::optional<std::int64_t> steps);

}  // namespace torch_distinput
