# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#
# benchmarks/cpp/bench_<name>.cpp becomes the executable bench_<name>; target tdi_benchmarks is all.

find_package(benchmark CONFIG REQUIRED)
add_custom_target(tdi_benchmarks)
file(GLOB bench_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/benchmarks/cpp/bench_*.cpp")
foreach(source IN LISTS bench_sources)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(${name} "${source}")
  target_include_directories(${name} PRIVATE
    "${PROJECT_SOURCE_DIR}/csrc" "${PROJECT_SOURCE_DIR}/benchmarks/cpp")
  target_link_libraries(${name} PRIVATE
    tdi_objects tdi_io tdi_runtime benchmark::benchmark benchmark::benchmark_main)
  add_dependencies(tdi_benchmarks ${name})
endforeach()
