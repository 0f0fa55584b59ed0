// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <c10/util/Exception.h>

#include "kernels/element_bytes.h"
#include "torch_distinput/testing.h"

namespace torch_distinput::testing {
namespace {

const char* path_name(bool stream_only) { return stream_only ? "the sequential path" : "its own path"; }

/// Not epoch 0, so that a state that loses its epoch is noticed.
IterateOptions run_options(bool stream_only) { return {.epoch = 1, .seed = 7, .stream_only = stream_only}; }

/// At most `most` elements as bytes.
std::vector<std::string> read(DatasetIterator& iterator, std::int64_t most) {
  std::vector<std::string> elements;
  while (static_cast<std::int64_t>(elements.size()) < most) {
    const std::optional<Element> element = iterator.next();
    if (!element) break;
    elements.push_back(element_bytes(*element));
  }
  return elements;
}

/// One epoch: its elements, and the position before each and at the end.
struct Recording {
  std::vector<std::string> elements;
  std::vector<State> positions;
  bool complete = false;
};

Recording record(const Dataset& dataset, const IterateOptions& options, std::int64_t most) {
  Recording recording;
  DatasetIterator iterator = dataset.iterate(options);
  recording.positions.push_back(iterator.save());
  while (static_cast<std::int64_t>(recording.elements.size()) < most) {
    const std::optional<Element> element = iterator.next();
    recording.complete = !element;
    if (!element) break;
    recording.elements.push_back(element_bytes(*element));
    recording.positions.push_back(iterator.save());
  }
  return recording;
}

/// Compares what `iterator` yields with the recording from element `start` on.
void check_rest(DatasetIterator& iterator, const Recording& recording, std::size_t start, bool ordered,
                const char* path) {
  std::vector<std::string> expected(recording.elements.begin() + static_cast<std::ptrdiff_t>(start),
                                    recording.elements.end());
  const std::int64_t one_too_many = recording.complete ? 1 : 0;
  std::vector<std::string> actual = read(iterator, static_cast<std::int64_t>(expected.size()) + one_too_many);
  TORCH_CHECK(actual.size() == expected.size(), "assert_resumable: restored after ", start, " elements in ",
              path, ", ", expected.size(), " elements must follow, but ", actual.size(), " did (at least).");
  if (!ordered) {
    std::sort(expected.begin(), expected.end());
    std::sort(actual.begin(), actual.end());
  }
  const auto differs = std::mismatch(actual.begin(), actual.end(), expected.begin()).first;
  TORCH_CHECK(differs == actual.end(), "assert_resumable: restored after ", start, " elements in ", path,
              ", element ", start + static_cast<std::size_t>(differs - actual.begin()), " differs.");
}

void check_resume(const Dataset& dataset, bool ordered, std::int64_t most, bool stream_only) {
  const IterateOptions options = run_options(stream_only);
  const Recording recording = record(dataset, options, most);
  if (!ordered && !recording.complete) return;
  // An iterator that was used before must yield the same as a fresh one.
  DatasetIterator used = dataset.iterate(options);
  for (std::size_t start = 0; start < recording.positions.size(); ++start) {
    DatasetIterator fresh = dataset.iterate({.epoch = 0, .seed = 0, .stream_only = stream_only});
    fresh.load(recording.positions[start]);
    check_rest(fresh, recording, start, ordered, path_name(stream_only));
    used.load(recording.positions[start]);
    if (start % 8 == 0) check_rest(used, recording, start, ordered, path_name(stream_only));
  }
}

}  // namespace

void assert_resumable(const Dataset& dataset, bool ordered, std::int64_t max_elements) {
  for (const bool stream_only : {false, true}) check_resume(dataset, ordered, max_elements, stream_only);
}

void assert_paths_agree(const Dataset& dataset, std::int64_t max_elements) {
  DatasetIterator own = dataset.iterate(run_options(false));
  DatasetIterator stream = dataset.iterate(run_options(true));
  const std::vector<std::string> expected = read(own, max_elements);
  const std::vector<std::string> actual = read(stream, max_elements);
  for (std::size_t i = 0; i < std::max(expected.size(), actual.size()); ++i) {
    TORCH_CHECK(i < expected.size() && i < actual.size(), "assert_paths_agree: one path ends after ", i,
                " elements, the other goes on.");
    TORCH_CHECK(expected[i] == actual[i], "assert_paths_agree: element ", i, " differs between the paths.");
  }
}

}  // namespace torch_distinput::testing
