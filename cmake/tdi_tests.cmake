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

# Tests that see torch share one precompiled header: whichever comes first makes it.
function(tdi_precompile_test test)
  if(NOT TARGET ${test})
    return()
  endif()
  get_property(owner GLOBAL PROPERTY TDI_TEST_PCH)
  if(owner AND TDI_PCH)
    target_precompile_headers(${test} REUSE_FROM ${owner})
  else()
    tdi_precompile(${test} <ATen/core/Tensor.h> <gtest/gtest.h>)
    set_property(GLOBAL PROPERTY TDI_TEST_PCH ${test})
  endif()
endfunction()

function(tdi_add_test room)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/cpp/${room}/*.cpp")
  if(NOT sources)
    return()
  endif()
  add_executable(test_${room} ${sources})
  target_include_directories(test_${room} PRIVATE
    "${PROJECT_SOURCE_DIR}/csrc" "${PROJECT_SOURCE_DIR}/tests/cpp")
  target_link_libraries(test_${room} PRIVATE ${ARGN} GTest::gtest GTest::gtest_main)
  add_dependencies(tdi_tests test_${room})
  add_test(NAME ${room} COMMAND test_${room})
  set_tests_properties(${room} PROPERTIES TIMEOUT 300)
  if(TDI_SANITIZE STREQUAL "thread")
    # oneTBB itself is not instrumented.
    set_tests_properties(${room} PROPERTIES ENVIRONMENT
      "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp")
  elseif(TDI_SANITIZE MATCHES "address")
    set_tests_properties(${room} PROPERTIES ENVIRONMENT
      "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan.supp")
  endif()
endfunction()

file(GLOB rooms CONFIGURE_DEPENDS LIST_DIRECTORIES true RELATIVE "${PROJECT_SOURCE_DIR}/tests/cpp"
  "${PROJECT_SOURCE_DIR}/tests/cpp/*")
foreach(room IN LISTS rooms)
  if(room STREQUAL "runtime")
    tdi_add_test(runtime tdi_runtime)
  elseif(room STREQUAL "files")
    tdi_add_test(files tdi_files tdi_runtime)
  elseif(NOT room STREQUAL "support" AND IS_DIRECTORY "${PROJECT_SOURCE_DIR}/tests/cpp/${room}")
    tdi_add_test(${room} tdi_objects tdi_files tdi_runtime)
    tdi_precompile_test(test_${room})
  endif()
endforeach()
