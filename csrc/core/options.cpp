// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/options.h"

#include <sstream>

#include <c10/util/Exception.h>

#include "core/names.h"

namespace torch_distinput {
namespace {

template <class T>
void take_later(std::optional<T>& field, const std::optional<T>& later) {
  if (later) field = later;
}

std::string skip_text(const Skip& skip) {
  if (!skip.max_count && !skip.max_fraction) return "'skip'";
  std::ostringstream out;
  out << "Skip(max_count=";
  skip.max_count ? out << *skip.max_count : out << "None";
  out << ", max_fraction=";
  skip.max_fraction ? out << *skip.max_fraction : out << "None";
  out << ')';
  return out.str();
}

class FieldPrinter {
 public:
  template <class T>
  void add(const char* name, const std::optional<T>& value) {
    if (value) out_ << std::exchange(separator_, ", ") << name << '=' << *value;
  }
  std::string str() const { return "Options(" + out_.str() + ")"; }

 private:
  std::ostringstream out_;
  const char* separator_ = "";
};

}  // namespace

Options Options::merged(const Options& later) const {
  Options result = *this;
  take_later(result.auto_shard_policy, later.auto_shard_policy);
  take_later(result.deterministic, later.deterministic);
  take_later(result.num_threads, later.num_threads);
  take_later(result.prefetch, later.prefetch);
  take_later(result.prefetch_bytes, later.prefetch_bytes);
  take_later(result.skip, later.skip);
  take_later(result.seed, later.seed);
  return result;
}

void Options::validate() const {
  TORCH_CHECK_VALUE(!num_threads || *num_threads >= 0, "Options: `num_threads` must be at least 0, but is ",
                    num_threads.value_or(0), ".");
  TORCH_CHECK_VALUE(!prefetch || *prefetch >= 0, "Options: `prefetch` must be at least 0, but is ",
                    prefetch.value_or(0), ".");
  TORCH_CHECK_VALUE(!prefetch_bytes || *prefetch_bytes >= 1,
                    "Options: `prefetch_bytes` must be at least 1, but is ", prefetch_bytes.value_or(0), ".");
  TORCH_CHECK_VALUE(!skip || !skip->max_count || *skip->max_count >= 0,
                    "Skip: `max_count` must be at least 0, but is ", skip ? skip->max_count.value_or(0) : 0,
                    ".");
  const double fraction = skip ? skip->max_fraction.value_or(0) : 0;
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "Skip: `max_fraction` must be in [0, 1], but is ",
                    fraction, ".");
}

std::string Options::str() const {
  FieldPrinter fields;
  fields.add("auto_shard_policy",
             auto_shard_policy ? std::optional(policy_name(*auto_shard_policy)) : std::nullopt);
  fields.add("deterministic",
             deterministic ? std::optional(*deterministic ? "True" : "False") : std::nullopt);
  fields.add("num_threads", num_threads);
  fields.add("prefetch", prefetch);
  fields.add("prefetch_bytes", prefetch_bytes);
  fields.add("on_error", skip ? std::optional(skip_text(*skip)) : std::nullopt);
  fields.add("seed", seed);
  return fields.str();
}

}  // namespace torch_distinput
