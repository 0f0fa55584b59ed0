// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "distribute/coordination/peer_link.h"
#include "distribute/steps/distribution.h"
#include "distribute/steps/plan_rows.h"
#include "execution/epoch_count.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

struct DistributedDataset::Impl {
  /// `peers`: the other processes; null: there are none.
  Impl(DistributionPtr shared, const PeersPtr& peers)
      : distribution(std::move(shared)),
        epochs(std::make_shared<EpochCount>()),
        handshakes(peers ? std::make_shared<HandshakeKeys>(peers) : nullptr) {
    TORCH_CHECK_VALUE(
        !peers || distribution->one_stream() || distribution->input.tail != Tail::kRepeat,
        "InputOptions: `tail` \"repeat\" needs one stream for all processes, but here each reads "
        "its own; use another tail or AutoShardPolicy DATA.");
  }

  /// The base seed: that of the pipeline, else one drawn once.
  std::uint64_t seed() const;
  /// The rows of the next epoch of `distribution`, this one's or that of one of its pipelines, by plan; or
  /// null.
  std::shared_ptr<PlanRows> next_rows(const Distribution& distribution) const;
  /// Steps an epoch of `distribution`; `only_complete`: that have the parts of all replicas.
  std::optional<std::int64_t> num_steps(const Distribution& distribution, bool only_complete) const;

  DistributionPtr distribution;
  std::shared_ptr<EpochCount> epochs;
  std::shared_ptr<HandshakeKeys> handshakes;  ///< null in a single process

 private:
  std::optional<std::int64_t> pipeline_steps(const Distribution& distribution, bool only_complete) const;
};

/// `DistributedDataset::sharding`.
std::string describe_sharding(const Distribution& distribution);

/// The report of `DistributedDataset::explain`. `rows`: of the next epoch; may be null.
std::string explain(const Distribution& distribution, const std::shared_ptr<PlanRows>& rows,
                    std::optional<std::int64_t> steps);

}  // namespace torch_distinput
