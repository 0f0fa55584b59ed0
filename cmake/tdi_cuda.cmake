# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#
# Enables CUDA where nvcc exists; CMAKE_CUDA_COMPILER is empty afterwards where it does not.

include(CheckLanguage)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "torch_distinput: nvcc was not found; the CUDA library is not built")
  return()
endif()

# Code for every generation of devices from 7.5 on that this nvcc knows; it runs on all of that generation. From
# the oldest one's PTX the driver compiles for devices that are newer than nvcc.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --list-gpu-arch OUTPUT_VARIABLE known_architectures)
  string(REGEX MATCHALL "compute_[0-9]+" known_architectures "${known_architectures}")
  list(TRANSFORM known_architectures REPLACE "compute_" "")
  list(SORT known_architectures COMPARE NATURAL)
  set(CMAKE_CUDA_ARCHITECTURES)
  set(last_generation)
  foreach(architecture IN LISTS known_architectures)
    string(REGEX REPLACE ".$" "" generation "${architecture}")
    if(architecture LESS 75 OR generation STREQUAL last_generation)
      continue()
    endif()
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES "${architecture}-virtual")
    endif()
    list(APPEND CMAKE_CUDA_ARCHITECTURES "${architecture}-real")
    set(last_generation "${generation}")
  endforeach()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    message(FATAL_ERROR "torch_distinput: ${CMAKE_CUDA_COMPILER} names no architecture from 7.5 on; set "
      "CMAKE_CUDA_ARCHITECTURES, or TDI_CUDA=OFF")
  endif()
  message(STATUS "torch_distinput: CUDA architectures ${CMAKE_CUDA_ARCHITECTURES}")
endif()
enable_language(CUDA)
