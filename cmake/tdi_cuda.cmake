# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#
# Enables CUDA where nvcc exists; CMAKE_CUDA_COMPILER is empty afterwards where it does not.

include(CheckLanguage)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "80-real;90-real;90-virtual")
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
else()
  message(STATUS "torch_distinput: nvcc was not found; the CUDA library is not built")
endif()
