# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#
# One executable test_<room> and one CTest test <room> per folder of tests/cpp; target tdi_tests is all. A process per room and
# not per test: loading torch costs more than most rooms' tests together.

enable_testing()
add_custom_target(tdi_tests)
include(tdi_gtest)
if(NOT TARGET GTest::gtest_main)
  return()
endif()

# Tests that see torch share one precompiled header: whichever comes first makes it. It holds what most tests include; with
# the heads of torch's operators and of the public headers in it a test compiles in half the time.
function(tdi_precompile_test test)
  if(NOT TARGET ${test})
    return()
  endif()
  get_property(owner GLOBAL PROPERTY TDI_TEST_PCH)
  if(owner AND TDI_PCH)
    target_precompile_headers(${test} REUSE_FROM ${owner})
  else()
    tdi_precompile(${test} <ATen/core/Tensor.h> <ATen/TensorOperators.h> <ATen/ops/arange.h> <ATen/ops/equal.h>
      <ATen/ops/full.h> <ATen/ops/scalar_tensor.h> <ATen/ops/zeros.h> <gtest/gtest.h>
      "${PROJECT_SOURCE_DIR}/csrc/include/torch_distinput/strategy.h")
    set_property(GLOBAL PROPERTY TDI_TEST_PCH ${test})
  endif()
endfunction()

function(tdi_add_test room)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/cpp/${room}/*.cpp")
  if(NOT sources)
    return()
  endif()
  add_executable(test_${room} ${sources})
  tdi_unite_rooms(test_${room} ${sources})
  target_include_directories(test_${room} PRIVATE
    "${PROJECT_SOURCE_DIR}/csrc" "${PROJECT_SOURCE_DIR}/tests/cpp")
  target_link_libraries(test_${room} PRIVATE ${ARGN} GTest::gtest GTest::gtest_main)
  # Compiling them takes twenty times as long as running them; the library's own code is compiled as ever.
  target_compile_options(test_${room} PRIVATE -O1)
  add_dependencies(tdi_tests test_${room})
  add_test(NAME ${room} COMMAND test_${room})
  set_tests_properties(${room} PROPERTIES TIMEOUT 300)
  if(TDI_SANITIZE STREQUAL "thread")
    # oneTBB itself is not instrumented. Forked children may start threads, as those that read from URLs do.
    set_tests_properties(${room} PROPERTIES ENVIRONMENT
      "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp:die_after_fork=0")
  elseif(TDI_SANITIZE MATCHES "address")
    set_tests_properties(${room} PROPERTIES ENVIRONMENT
      "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan.supp")
  endif()
endfunction()

# An asynchronous accelerator on torch's PrivateUse1, for tests of the device room in C++ and Python.
file(GLOB fake_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fake_accelerator/*.cpp")
list(FILTER fake_sources EXCLUDE REGEX "module\\.cpp$")
add_library(tdi_fake_accelerator OBJECT ${fake_sources})
set_target_properties(tdi_fake_accelerator PROPERTIES UNITY_BUILD ${TDI_UNITY} UNITY_BUILD_BATCH_SIZE 0)
target_include_directories(tdi_fake_accelerator INTERFACE "${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(tdi_fake_accelerator PUBLIC tdi::torch_cpu tdi::c10 Threads::Threads)
if(TDI_BUILD_PYTHON AND NOT TDI_SANITIZE)
  Python_add_library(_fake_accelerator MODULE "${PROJECT_SOURCE_DIR}/tests/fake_accelerator/module.cpp")
  target_link_libraries(_fake_accelerator PRIVATE tdi_fake_accelerator tdi::torch_python)
  add_dependencies(tdi_tests _fake_accelerator)
endif()

# Found as libnccl.so.2, because it is there already.
add_library(tdi_fake_nccl SHARED "${PROJECT_SOURCE_DIR}/tests/fake_nccl/fake_nccl.cpp")
set_target_properties(tdi_fake_nccl PROPERTIES OUTPUT_NAME nccl SOVERSION 2 CXX_VISIBILITY_PRESET default
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fake_nccl")
target_include_directories(tdi_fake_nccl INTERFACE "${PROJECT_SOURCE_DIR}/tests")

# Found as libcuda.so.1, because it is there already, and as the CUDA library of what lies beside it.
add_library(tdi_fake_driver SHARED "${PROJECT_SOURCE_DIR}/tests/fake_cuda/fake_driver.cpp")
set_target_properties(tdi_fake_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1)
add_library(tdi_fake_cuda SHARED "${PROJECT_SOURCE_DIR}/tests/fake_cuda/fake_cuda.cpp"
  "${PROJECT_SOURCE_DIR}/csrc/device/cuda/driver.cpp")
set_target_properties(tdi_fake_cuda PROPERTIES OUTPUT_NAME torch_distinput_cuda)
target_include_directories(tdi_fake_cuda PRIVATE "${PROJECT_SOURCE_DIR}/csrc")
target_link_libraries(tdi_fake_cuda PRIVATE tdi_fake_driver)
foreach(fake tdi_fake_driver tdi_fake_cuda)
  target_include_directories(${fake} INTERFACE "${PROJECT_SOURCE_DIR}/tests")
  set_target_properties(${fake} PROPERTIES CXX_VISIBILITY_PRESET default
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fake_cuda")
endforeach()

file(GLOB rooms CONFIGURE_DEPENDS LIST_DIRECTORIES true RELATIVE "${PROJECT_SOURCE_DIR}/tests/cpp"
  "${PROJECT_SOURCE_DIR}/tests/cpp/*")
foreach(room IN LISTS rooms)
  if(room MATCHES "^(base|runtime|workers)$")
    tdi_add_test(${room} tdi_runtime)
  elseif(room MATCHES "^(remote|io)$")
    tdi_add_test(${room} tdi_io tdi_runtime)
  elseif(NOT room STREQUAL "support" AND IS_DIRECTORY "${PROJECT_SOURCE_DIR}/tests/cpp/${room}")
    tdi_add_test(${room} tdi_objects tdi_io tdi_runtime)
    tdi_precompile_test(test_${room})
    if(room STREQUAL "device")
      target_link_libraries(test_device PRIVATE tdi_fake_accelerator tdi_fake_nccl)
      # The part of the CUDA library that needs no nvcc.
      target_sources(test_device PRIVATE "${PROJECT_SOURCE_DIR}/csrc/device/cuda/collectives.cpp"
        "${PROJECT_SOURCE_DIR}/csrc/device/cuda/nccl.cpp")
    elseif(room STREQUAL "cuda")
      target_link_libraries(test_cuda PRIVATE tdi_fake_accelerator tdi_fake_driver tdi_fake_cuda)
      # Beside the fake CUDA library instead of the real one.
      set_target_properties(test_cuda PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fake_cuda")
    endif()
  endif()
endforeach()
