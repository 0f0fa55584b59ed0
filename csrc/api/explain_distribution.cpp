// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <string>

#include "api/distributed_dataset.h"
#include "api/explain_lanes.h"
#include "distribute/coordination/steps_ahead.h"
#include "distribute/splitting/tail.h"
#include "distribute/steps/device_placement.h"

namespace torch_distinput {
namespace {

std::string cardinality_text(std::int64_t cardinality) {
  if (cardinality == kInfiniteCardinality) return "infinite";
  return cardinality < 0 ? "unknown" : std::to_string(cardinality);
}

std::string building_text(const Distribution& distribution, const std::shared_ptr<PlanRows>& rows) {
  if (!rows) return "from a stream (the rows of a batch are known only when it is there)";
  const PlanTraits traits = rows->plan()->traits();
  const bool own_threads = traits.runs_user_code || traits.blocks || traits.remote;
  const bool here = distribution.input.per_replica_buffer_size == 0;
  return std::string("from a plan, ") + (here          ? "in the caller's thread"
                                         : own_threads ? "on threads of its own"
                                                       : "on the arena");
}

/// How ranks whose streams may end at different steps agree on them; "" where they need not.
std::string agreement_text(const Distribution& distribution, bool plans) {
  const bool one_order = distribution.one_stream() && (plans || !distribution.skips());
  if (distribution.assignment.replicas.ranks == 1 || one_order) return "";
  return "agreement: " + StepsAhead(distribution).describe() + "\n";
}

/// How often all ranks together do what one process would do once; "" where each rank reads its own rows
/// only.
std::string work_text(const Distribution& distribution, bool plans) {
  const std::int64_t ranks = distribution.assignment.replicas.ranks;
  if (ranks == 1 || plans || !distribution.one_stream()) return "";
  std::string text = "work: every rank reads all elements and runs all functions on them, " +
                     std::to_string(ranks) +
                     " times in all, because which rows are a rank's is known only when the batch is there";
  // Whether it can be cut is found out only where it is asked for, because that may read files.
  if (distribution.options.auto_shard_policy != AutoShardPolicy::kStreams)
    text += "; auto_shard_policy STREAMS reads each once, if the pipeline can be cut";
  return text + "\n";
}

std::string completion_text(const Distribution& distribution) {
  if (distribution.completes) return "on";
  const bool may_matter = distribution.cardinality != kInfiniteCardinality &&
                          distribution.assignment.width > distribution.assignment.splitter->parts();
  return may_matter ? "off: a last step without the parts of all replicas is handed out by "
                      "get_next_as_optional alone"
                    : "off";
}

std::string placement_text(const Distribution& distribution) {
  const bool ignored = distribution.input.place_dataset_on_device && distribution.pipelines.empty();
  return ignored
             ? "place_dataset_on_device: ignored, as only datasets of a replica of its own can be placed\n"
             : "";
}

std::string unpacking_text(const Distribution& distribution) {
  const Unpacking unpacking = unpacking_on_devices(distribution);
  if (!unpacking.left.empty())
    return "normalize_images: done by the devices, so that bytes are copied and not floats\n";
  return unpacking.obstacle.empty() ? "" : "normalize_images: done on the host: " + unpacking.obstacle + "\n";
}

std::string delivery_text(const Distribution& distribution) {
  if (!leaves_host(distribution)) return "";
  for (const c10::Device device : distribution.devices) {
    if (const std::string limits = delivery_limits(device); !limits.empty())
      return "delivery: " + limits + "\n";
  }
  return "";
}

std::string balance_text(const Distribution& distribution) {
  if (!distribution.balance) return "";
  const std::string window = std::to_string(distribution.input.balance_window);
  const char* const reading = distribution.balance->known() ? "known without reading rows"
                                                            : "so each process reads all rows of its stream";
  return "balance: " + distribution.balance->describe() + ", " + reading +
         "; rows are exchanged within windows of " + window + " global batches\n";
}

std::string pipelines_text(const Distribution& distribution) {
  if (distribution.pipelines.empty()) return {};
  return "pipelines: " + std::to_string(distribution.pipelines.size()) +
         ", one for each replica, which takes a whole element of its own a step\n";
}

std::string replicas_text(const Replicas& replicas) {
  const std::string all = std::to_string(replicas.all());
  if (replicas.ranks == 1) return all + ", all in this process";
  return all + ", " + std::to_string(replicas.per_rank) + " in each of " + std::to_string(replicas.ranks) +
         " processes; this is rank " + std::to_string(replicas.rank);
}

std::optional<PlannedStep> first_step(const Distribution& distribution, PlanRows& rows) {
  return StepSchedule(distribution.rules(), {}).next(rows);
}

std::string rows_text(const std::optional<PlannedStep>& step) {
  if (!step) return "none";
  std::ostringstream text;
  const char* separator = "";
  for (const Part& part : step->parts) {
    text << separator << part.rows << (part.present ? "" : " (made up)");
    separator = ", ";
  }
  return text.str();
}

}  // namespace

std::string describe_sharding(const Distribution& distribution) {
  const AutoShardPolicy asked = distribution.options.auto_shard_policy.value_or(AutoShardPolicy::kAuto);
  const Sharding& sharding = distribution.assignment.sharding;
  return policy_name(asked) + ", applied as " + policy_name(sharding.applied) + ": " + sharding.reason;
}

std::string explain(const Distribution& distribution, const std::shared_ptr<PlanRows>& rows,
                    std::optional<std::int64_t> steps) {
  const RowAssignment& assignment = distribution.assignment;
  const Replicas& replicas = assignment.replicas;
  const bool plans = rows && distribution.pipelines.empty();
  std::ostringstream text;
  text << "replicas: " << replicas_text(replicas) << "\n"
       << "policy: " << describe_sharding(distribution) << "\n"
       << "batch size: "
       << (assignment.batch < 0 && !assignment.schedule ? "not inferred" : batch_size_text(assignment))
       << "\n"
       << "split: " << assignment.splitter->describe() << ": " << assignment.splitter_reason << "\n"
       << balance_text(distribution) << lanes_text(distribution, rows)
       << "tail: " << tail_name(distribution.input.tail) << "\n"
       << "partial batch handling: " << completion_text(distribution) << "\n"
       << placement_text(distribution) << delivery_text(distribution) << unpacking_text(distribution)
       << "building of steps: " << building_text(distribution, rows) << "\n"
       << work_text(distribution, rows != nullptr) << agreement_text(distribution, rows != nullptr)
       << pipelines_text(distribution)
       << "rows of the first step: " << (plans ? rows_text(first_step(distribution, *rows)) : "not known")
       << "\n"
       << "rows of the last step: "
       << (plans ? rows_text(last_step(distribution.rules(), *rows)) : "not known") << "\n"
       << "cardinality: " << cardinality_text(distribution.cardinality)
       << ", steps: " << (steps ? std::to_string(*steps) : "not known") << "\n";
  return text.str();
}

}  // namespace torch_distinput
