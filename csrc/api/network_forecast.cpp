// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/network_forecast.h"

#include <algorithm>
#include <iomanip>
#include <set>

#include <c10/util/StringUtil.h>

#include "api/announced_run.h"
#include "execution/any_op.h"
#include "execution/execution_context.h"
#include "execution/reads_files.h"
#include "io/byte_source.h"
#include "io/file.h"
#include "io/remote_files.h"
#include "remote/announced_requests.h"
#include "remote/url.h"
#include "sources/records/file_errors.h"

namespace torch_distinput {
namespace {

/// Stores are asked for the sizes of so many objects at most.
constexpr std::size_t kMostLooks = 1000;

const ReadsFiles* as_reader(const Node& node) { return dynamic_cast<const ReadsFiles*>(&node); }

/// The objects among the files of a source.
std::vector<std::string> objects_of(const ReadsFiles& source, const IterContext& context) {
  std::vector<std::string> names = source.files(context).value_or(std::vector<std::string>());
  std::erase_if(names, [](const std::string& name) { return !is_url(name); });
  return names;
}

class Forecaster {
 public:
  NetworkForecast forecast(const Node& node, const IterContext& context) {
    add_files(node, context);
    if (result_.files == 0) return result_;
    for (DiskCache* const cache : caches_) result_.caches.push_back(cache->view());
    add_indexing(node, context);
    if (result_.lacks_index()) {
      result_.requests.reset();
    } else {
      add_requests(node, context);
    }
    return result_;
  }

 private:
  /// Counts the objects of all sources, and their bytes.
  void add_files(const Node& node, const IterContext& context) {
    if (const ReadsFiles* const source = as_reader(node)) add_files(objects_of(*source, context));
    const std::vector<NodePtr> inputs = node.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) add_files(*inputs[i], context.input(i));
  }
  void add_files(const std::vector<std::string>& objects) {
    RemoteFiles& files = RemoteFiles::of_process();
    result_.files += std::ssize(objects);
    for (DiskCache* const cache : files.caches(objects)) caches_.insert(cache);
    result_.files_of_user += std::count_if(objects.begin(), objects.end(),
                                           [&](const auto& url) { return files.has_file_system(url); });
    const auto unseen = static_cast<std::size_t>(
        std::count_if(objects.begin(), objects.end(), [&](const auto& url) { return !files.seen(url); }));
    if (unseen > kMostLooks) result_.bytes.reset();
    if (!result_.bytes) return;
    will_open(objects);
    for (const std::string& url : objects) *result_.bytes += files.version(url).size;
  }

  /// Adds the requests that make the indexes of sources that lack one.
  void add_indexing(const Node& node, const IterContext& context) {
    const ReadsFiles* const source = as_reader(node);
    if (source != nullptr && source->lacks_index(context))
      add_to(result_.index_requests, in_order(objects_of(*source, context)));
    const std::vector<NodePtr> inputs = node.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) add_indexing(*inputs[i], context.input(i));
  }

  /// Adds the requests for what `node` yields: those that its plan announces, or those of its inputs.
  void add_requests(const Node& node, const IterContext& context) {
    const ReadsFiles* const source = as_reader(node);
    if (source != nullptr && source->reads_blocks()) return add_blocks(*source, context);
    const bool has_blocks = any_op(node, [](const Node& op) {
      const ReadsFiles* const reader = as_reader(op);
      return reader != nullptr && reader->reads_blocks();
    });
    const PlanPtr plan = has_blocks ? nullptr : node.plan(context);
    if (plan && plan->size() != kEndless) return add(announced_by(*plan, *context.execution));
    if (source != nullptr && !plan) return add(in_order(objects_of(*source, context)));
    const std::vector<NodePtr> inputs = node.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) add_requests(*inputs[i], context.input(i));
  }

  void add_blocks(const ReadsFiles& source, const IterContext& context) {
    const AnnouncedRequests announced;
    source.announce_blocks(context);
    add(announced.count());
  }
  /// The requests where each object is read from its first byte to its last one.
  std::optional<std::uint64_t> in_order(const std::vector<std::string>& objects) const {
    if (!result_.bytes) return std::nullopt;
    std::uint64_t requests = 0;
    for (const std::string& url : objects)
      requests += requests_in_order(RemoteFiles::of_process().version(url).size);
    return requests;
  }
  void add(std::optional<std::uint64_t> requests) { add_to(result_.requests, requests); }
  static void add_to(std::optional<std::uint64_t>& sum, std::optional<std::uint64_t> requests) {
    if (!requests) return sum.reset();
    if (sum) *sum += *requests;
  }

  NetworkForecast result_;
  std::set<DiskCache*> caches_;
};

/// "12.6 MB"
std::string bytes_text(std::uint64_t bytes) {
  auto value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* const larger : {"kB", "MB", "GB", "TB"}) {
    if (value < 999.5) break;
    value /= 1000;
    unit = larger;
  }
  return c10::str(std::setprecision(3), value, " ", unit);
}

std::string files_text(std::int64_t files) {
  return std::to_string(files) + (files == 1 ? " file" : " files");
}

/// S3's price of a million GET requests, in dollars; others ask for about as much.
constexpr double kPriceOfMillion = 0.40;

/// "about 12 requests an epoch, less than $0.01 at $0.40 a million"
std::string requests_text(std::uint64_t requests, const char* of) {
  const double price = static_cast<double>(requests) * kPriceOfMillion / 1e6;
  const std::string cost = price < 0.01 ? "less than $0.01" : c10::str("$", std::setprecision(3), price);
  return c10::str("about ", requests, " requests", of, ", ", cost, " at $0.40 a million");
}

std::string index_text(const NetworkForecast& forecast) {
  std::string text = "index: there is none yet, so that all bytes are read once before the first epoch";
  if (forecast.index_requests) text += ", in " + requests_text(*forecast.index_requests, "");
  return text + "; `python -m torch_distinput index URL` makes it once for all";
}

std::string cache_text(const CacheView& cache) {
  if (!cache.problem.empty()) return "cache: off, as " + cache.problem;
  std::string text = "cache: " + cache.folder + " has " + bytes_text(cache.bytes);
  if (cache.limits.max_bytes != CacheLimits().max_bytes) text += " of " + bytes_text(cache.limits.max_bytes);
  if (!cache.is_shared)
    text += "; its file system has no locks: a folder of this process alone, which goes with it";
  if (!cache.note.empty()) text += "; " + cache.note;
  return text;
}

}  // namespace

bool lacks_index_below(const Node& node, const IterContext& context) {
  if (const ReadsFiles* const source = as_reader(node)) return source->lacks_index(context);
  const std::vector<NodePtr> inputs = node.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (lacks_index_below(*inputs[i], context.input(i))) return true;
  }
  return false;
}

NetworkForecast network_forecast(const Node& node, const IterContext& context) {
  return with_file_errors("explain", [&] { return Forecaster().forecast(node, context); });
}

std::vector<std::string> facts_of(const NetworkForecast& forecast) {
  if (forecast.files == 0) return {};
  const std::string size = forecast.bytes ? bytes_text(*forecast.bytes) : "sizes not known";
  const bool has_price = forecast.requests && forecast.files != forecast.files_of_user;
  std::vector<std::string> facts{"network: " + files_text(forecast.files) + ", " + size +
                                 (has_price ? "; " + requests_text(*forecast.requests, " an epoch") : "")};
  if (forecast.files_of_user > 0)
    facts.push_back("file system: Python reads " + files_text(forecast.files_of_user) +
                    "; slower: one read at a time a thread, and none in forked workers");
  for (const CacheView& cache : forecast.caches) facts.push_back(cache_text(cache));
  if (forecast.lacks_index()) facts.push_back(index_text(forecast));
  return facts;
}

}  // namespace torch_distinput
