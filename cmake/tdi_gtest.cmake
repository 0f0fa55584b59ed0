# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#
# GoogleTest: the installed one, else a download. Without either the C++ tests are not built, loudly;
# in CI that is an error.

find_package(GTest CONFIG QUIET)
if(NOT TARGET GTest::gtest_main)
  set(_tdi_url "https://github.com/google/googletest/archive/refs/tags/v1.14.0.tar.gz")
  set(_tdi_hash 8ad598c73ad796e0d8280b082cebd82a630d73e73cd3c70057938a6501bba5d7)
  set(_tdi_archive "${PROJECT_BINARY_DIR}/googletest.tar.gz")
  set(_tdi_found "")
  if(EXISTS "${_tdi_archive}")
    file(SHA256 "${_tdi_archive}" _tdi_found)
  endif()
  if(NOT _tdi_found STREQUAL _tdi_hash)
    file(DOWNLOAD "${_tdi_url}" "${_tdi_archive}" TIMEOUT 60 STATUS _tdi_status)
    file(SHA256 "${_tdi_archive}" _tdi_found)
  endif()
  if(_tdi_found STREQUAL _tdi_hash)
    include(FetchContent)
    set(INSTALL_GTEST OFF)
    set(BUILD_GMOCK OFF)
    FetchContent_Declare(googletest URL "${_tdi_archive}" URL_HASH SHA256=${_tdi_hash}
      DOWNLOAD_EXTRACT_TIMESTAMP ON)
    FetchContent_MakeAvailable(googletest)
    foreach(_tdi_target gtest gtest_main)
      target_compile_options(${_tdi_target} PRIVATE -w)
    endforeach()
  else()
    set(_tdi_message "GoogleTest is neither installed nor downloadable (${_tdi_status}): "
      "THE C++ TESTS ARE NOT BUILT. Install it with your system's package manager (libgtest-dev).")
    if("$ENV{CI}" STREQUAL "true")
      message(FATAL_ERROR ${_tdi_message})
    endif()
    message(WARNING ${_tdi_message})
  endif()
endif()
