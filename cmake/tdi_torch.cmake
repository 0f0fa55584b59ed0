# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#
# Imported targets for an installed torch, for this project and for projects that use it:
#   tdi::c10, tdi::torch_cpu      always
#   tdi::torch                    always; the whole of torch as a program links it, CUDA included
#   tdi::torch_python             where torch was built with Python
#   tdi::c10_cuda                 only where torch was built with CUDA
# and the variables TDI_TORCH_FOLDER and TDI_TORCH_VERSION.
#
# find_package(Torch) is not used: it takes seconds, and on a CUDA build of torch it demands the CUDA
# toolkit of everybody. Nothing here is cached, so another torch is picked up by the next configure.
# Set TDI_TORCH_ROOT (the folder of the Python package torch, or an unpacked LibTorch) to choose one.

# Candidates offered by the caller in TDI_TORCH_HINTS come before Python's torch.
if(NOT TDI_TORCH_ROOT)
  foreach(_tdi_dir IN LISTS TDI_TORCH_HINTS)
    if(_tdi_dir AND EXISTS "${_tdi_dir}/lib/libtorch_cpu.so")
      get_filename_component(_tdi_torch_root "${_tdi_dir}" ABSOLUTE)
      break()
    endif()
  endforeach()
endif()
if(TDI_TORCH_ROOT)
  set(_tdi_torch_root "${TDI_TORCH_ROOT}")
elseif(NOT _tdi_torch_root)
  find_package(Python 3.10 QUIET COMPONENTS Interpreter)
  if(Python_EXECUTABLE)
    # find_spec does not import torch: 0.03 s instead of 2 s.
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -c
        "import importlib.util,os;print(os.path.dirname(importlib.util.find_spec('torch').origin))"
      OUTPUT_VARIABLE _tdi_torch_root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()

if(NOT EXISTS "${_tdi_torch_root}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "torch_distinput: no torch found (Python: '${Python_EXECUTABLE}', root: "
    "'${_tdi_torch_root}'). Install torch into this Python, choose another Python with "
    "-DPython_EXECUTABLE=..., or name torch's folder with -DTDI_TORCH_ROOT=....")
endif()

set(_tdi_version_file "${_tdi_torch_root}/include/torch/headeronly/version.h")
if(NOT EXISTS "${_tdi_version_file}")
  set(_tdi_version_file "${_tdi_torch_root}/include/torch/csrc/api/include/torch/version.h")
endif()
file(STRINGS "${_tdi_version_file}" _tdi_version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX MATCHALL "[0-9]+" _tdi_version_parts "${_tdi_version_lines}")
list(JOIN _tdi_version_parts "." TDI_TORCH_VERSION)

set(_tdi_torch_includes
  "${_tdi_torch_root}/include" "${_tdi_torch_root}/include/torch/csrc/api/include")
foreach(_tdi_name c10 torch_cpu torch_python c10_cuda)
  set(_tdi_file "${_tdi_torch_root}/lib/lib${_tdi_name}.so")
  if(EXISTS "${_tdi_file}" AND NOT TARGET tdi::${_tdi_name})
    add_library(tdi::${_tdi_name} SHARED IMPORTED)
    set_target_properties(tdi::${_tdi_name} PROPERTIES
      IMPORTED_LOCATION "${_tdi_file}"
      INTERFACE_INCLUDE_DIRECTORIES "${_tdi_torch_includes}")
  endif()
endforeach()

# libtorch.so has no symbols of its own; it is what brings libtorch_cuda.so into a program, and a
# linker that drops unneeded libraries would drop it.
if(NOT TARGET tdi::torch)
  add_library(tdi::torch INTERFACE IMPORTED)
  set_target_properties(tdi::torch PROPERTIES INTERFACE_LINK_LIBRARIES
    "-Wl,--push-state,--no-as-needed,${_tdi_torch_root}/lib/libtorch.so,--pop-state;tdi::torch_cpu;tdi::c10")
endif()

set(TDI_TORCH_FOLDER "${_tdi_torch_root}")
unset(_tdi_torch_root)
