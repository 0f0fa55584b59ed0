// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include <pybind11/pybind11.h>

#include "base/trace.h"
#include "bindings/module.h"

namespace torch_distinput {
namespace {

namespace py = pybind11;

const char* stage_name(Stage stage) noexcept {
  switch (stage) {
    case Stage::kNext:
      return "next";
    case Stage::kBuild:
      return "build";
    case Stage::kRead:
      return "read";
    case Stage::kPython:
      return "python";
    case Stage::kCopy:
      return "copy";
    case Stage::kWait:
      break;
  }
  return "wait";
}

py::dict trace_to_python(const Trace& trace) {
  py::list spans, queues;
  for (const Span& span : trace.spans)
    spans.append(py::make_tuple(stage_name(span.stage), span.begin, span.end, span.thread));
  for (const QueueSample& sample : trace.queues)
    queues.append(py::make_tuple(sample.time, sample.ready, sample.room));
  py::dict threads;
  for (const ThreadName& thread : trace.threads) threads[py::int_(thread.thread)] = thread.name;
  py::dict result;
  result["begin"] = trace.begin;
  result["end"] = trace.end;
  result["spans"] = spans;
  result["queues"] = queues;
  result["threads"] = threads;
  result["dropped"] = trace.dropped;
  return result;
}

}  // namespace

void bind_trace(py::module_& module) {
  module.def(
      "start_trace", [](std::size_t most) { return start_trace(most); }, py::arg("most"),
      "Begins to keep what the threads of this process do, at most `most` spans. False where it does so "
      "already.");
  module.def(
      "stop_trace", [] { return trace_to_python(stop_trace()); },
      "Ends the trace. Returns its begin and end, spans as (stage, begin, end, thread), looks into queues as "
      "(time, ready, room), the names of threads, and how many of these were dropped. Times are in ns of the "
      "monotonic clock.");
}

}  // namespace torch_distinput
